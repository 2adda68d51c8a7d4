# Runs the stages of a check, each with a time-out and a log of its own; sourced by test/run and
# test/soak.
#
#   stages_begin build/test-logs
#   stage build 1800 cmake --build --preset ci        # prints "ok" or the end of the log
#   if passed build; then stage tests 600 ctest ...; else skip tests "build failed"; fi
#   stage_behind rig-build 2400 test/rig/build        # starts now, beside the others ...
#   stage_await rig-build                             # ... and is reported here
#   stages_end                                        # summary, then "N passed, M failed[, K skipped]"
#
# A stage counts as one test, unless its log ends with such a line of its own, or with that of ctest
# or of Python's unittest: then those tests count. Ctrl-C (also SIGTERM and SIGHUP) ends what was started.

declare -A STAGE_STATE=() STAGE_PID=() STAGE_BEGAN=() STAGE_LIMIT=()
declare -a STAGE_ROWS=() STAGE_FAULTS=()
PASSED=0 FAILED=0 SKIPPED=0
# Seconds that a stage has to clean up after it was told to end.
STAGE_GRACE=60
STAGE_HEARTBEAT=60

stages_begin() {
  STAGE_LOGS=$1
  mkdir -p "$STAGE_LOGS"
  rm -f "$STAGE_LOGS"/*.log
  trap 'stages_interrupt' INT TERM HUP
}

# timeout(1) makes a process group of its own and passes a signal on to all of it.
stage_start() {
  local name=$1 limit=$2
  shift 2
  STAGE_BEGAN[$name]=$SECONDS
  STAGE_LIMIT[$name]=$limit
  timeout --kill-after="$STAGE_GRACE" "$limit" "$@" </dev/null >"$STAGE_LOGS/$name.log" 2>&1 &
  STAGE_PID[$name]=$!
}

stage() {
  stage_start "$@"
  stage_await "$1"
}

stage_behind() {
  stage_start "$@"
  printf -- '-- %s: started beside the rest\n' "$1"
}

stage_await() {
  local name=$1 pid=${STAGE_PID[$1]} code=0 last_beat=$SECONDS
  printf -- '-- %s\n' "$name"
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
    if ((SECONDS - last_beat >= STAGE_HEARTBEAT)); then
      last_beat=$SECONDS
      printf '   %s: %d s so far: %s\n' "$name" $((SECONDS - STAGE_BEGAN[$name])) \
        "$(tail -n 20 "$STAGE_LOGS/$name.log" | tr -d '\r' | grep '[^ ]' | tail -n 1 | cut -c 1-100)"
    fi
  done
  wait "$pid" || code=$?
  unset "STAGE_PID[$name]"
  stage_report "$name" "$code" $((SECONDS - STAGE_BEGAN[$name]))
}

# Prints "passed failed skipped" as the log tells them; nothing where it does not.
stage_counts() {
  awk '
    /^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$/ { good = $1; bad = $3; left = $5 + 0 }
    /^[0-9]+% tests passed, [0-9]+ tests failed out of [0-9]+$/ { good = $NF - $4; bad = $4; left = 0 }
    /^Ran [0-9]+ tests? in / { ran = $2 }
    /^(OK|FAILED)( \(.*\))?$/ && ran != "" {
      bad = number("failures") + number("errors"); left = number("skipped"); good = ran - bad - left
      if (good < 0) good = 0    # a test with subtests can fail more than once
    }
    function number(what) { return match($0, what "=[0-9]+") ? substr($0, RSTART + length(what) + 1) + 0 : 0 }
    END { if (good != "") print good, bad, left }' "$1"
}

stage_report() {
  local name=$1 code=$2 seconds=$3 log=$STAGE_LOGS/$1.log good=0 bad=0 left=0 word=ok
  read -r good bad left < <(stage_counts "$log") || true
  if ((good + bad + left == 0)); then
    if ((code == 0)); then good=1; else bad=1; fi
  elif ((code != 0 && bad == 0)); then
    bad=1
  elif ((code == 0 && bad > 0)); then
    code=1
  fi
  ((PASSED += good, FAILED += bad, SKIPPED += left)) || true
  STAGE_STATE[$name]=$code
  if ((code != 0)); then
    word=FAILED
    ((code == 124)) && word="FAILED (not done after ${STAGE_LIMIT[$name]} s)"
    tail -n 40 "$log" | sed 's/^/   | /'
    STAGE_FAULTS+=("$name: $(stage_faults "$log")")
    printf '   the whole log: %s\n' "$log"
  fi
  STAGE_ROWS+=("$(printf '%-22s %5d s   %s (%d passed, %d failed, %d skipped)' \
    "$name" "$seconds" "$word" "$good" "$bad" "$left")")
  printf '   %s\n' "${STAGE_ROWS[-1]}"
  # A stage can be a run of stages itself; their rows stand below its own.
  local inner
  while IFS= read -r inner; do STAGE_ROWS+=("  $inner"); done < <(stage_rows "$log")
}

# The rows of the summary in a log.
stage_rows() {
  awk '/^summary after [0-9]+ s:$/ { inside = 1; next } !/^   / { inside = 0 } inside { print substr($0, 4) }' "$1"
}

# The lines of a log that name what failed, short, for a reader who sees the end of the output only.
stage_faults() {
  local lines
  lines=$(grep -aE '^(FAIL|not ok|FAILED)|\*\*\*|FAILED +\]|Failure$|error:|Error:|remedy:|(SUMMARY|FATAL): ' "$1" | tail -n 6)
  [[ -n $lines ]] || lines=$(tail -n 3 "$1")
  cut -c 1-160 <<<"$lines"
}

skip() {
  ((SKIPPED += 1))
  STAGE_STATE[$1]=skipped
  STAGE_ROWS+=("$(printf '%-22s %5s     skipped: %s' "$1" - "$2")")
  printf -- '-- %s\n   %s\n' "$1" "${STAGE_ROWS[-1]}"
}

passed() { [[ ${STAGE_STATE[$1]:-} == 0 ]]; }

stages_interrupt() {
  trap '' INT TERM HUP
  printf '\ninterrupted: ending what was started\n' >&2
  local name
  for name in "${!STAGE_PID[@]}"; do
    kill -TERM "${STAGE_PID[$name]}" 2>/dev/null || true
  done
  wait
  exit 130
}

stages_end() {
  printf '\n%s\n' "summary after $SECONDS s:"
  printf '   %s\n' "${STAGE_ROWS[@]}"
  ((${#STAGE_FAULTS[@]})) && printf '%s\n' "${STAGE_FAULTS[@]}"
  if ((SKIPPED)); then
    printf '%d passed, %d failed, %d skipped\n' "$PASSED" "$FAILED" "$SKIPPED"
  else
    printf '%d passed, %d failed\n' "$PASSED" "$FAILED"
  fi
  ((FAILED == 0 && PASSED > 0))
}

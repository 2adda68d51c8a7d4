{{/*
What values.schema.json cannot say about `config`: rules between fields, and names with exceptions. They are those of the
controller (controller/configuration_fields.cc), which would refuse to start; test/chart/chart_test compares the two.
*/}}
{{- define "asterism.checkConfig" -}}
{{- include "asterism.checkNames" . }}
{{- include "asterism.checkLevels" .levels }}
{{- if eq (int .ports.https) (int .ports.metrics) }}
{{- fail (printf "config.ports.metrics: %v is config.ports.https too: use two ports" .ports.metrics) }}
{{- end }}
{{- range $other := list "https" "metrics" }}
{{- if eq (int $.ports.grpc) (int (get $.ports $other)) }}
{{- fail (printf "config.ports.grpc: %v is config.ports.%s too: use two ports" $.ports.grpc $other) }}
{{- end }}
{{- end }}
{{- if and (eq (.commit | default "Scheduler") "Direct") (not .taintNodes) }}
{{- fail "config.commit: Direct needs nodes that no other scheduler uses: set config.taintNodes to true, or use Scheduler" }}
{{- end }}
{{- with .leaderElection }}
{{- if le (float64 .leaseDurationSeconds) (float64 .renewDeadlineSeconds) }}
{{- fail (printf "config.leaderElection: leaseDurationSeconds (%v) must be more than renewDeadlineSeconds (%v)" .leaseDurationSeconds .renewDeadlineSeconds) }}
{{- end }}
{{- if le (float64 .renewDeadlineSeconds) (mulf 1.2 .retryPeriodSeconds) }}
{{- fail (printf "config.leaderElection: renewDeadlineSeconds (%v) must be more than 1.2 x retryPeriodSeconds (%v)" .renewDeadlineSeconds .retryPeriodSeconds) }}
{{- end }}
{{- end }}
{{- end }}

{{/* What only the whole of the values can say. */}}
{{- define "asterism.checkCertificates" -}}
{{- if and .Values.certManager.enabled (ne .Values.config.tls.mode "Secrets") }}
{{- fail (printf "certManager.enabled: config.tls.mode is %s, so the controller would not read what cert-manager writes: set it to Secrets" .Values.config.tls.mode) }}
{{- end }}
{{- if and .Values.certManager.enabled (not .Values.certManager.issuerRef.name) }}
{{- fail "certManager.issuerRef: is missing: name an issuer, for example {name: internal, kind: ClusterIssuer}" }}
{{- end }}
{{- end }}

{{- define "asterism.checkNames" -}}
{{- if eq .schedulerName "default-scheduler" }}
{{- fail "config.schedulerName: default-scheduler is the scheduler of every pod in the cluster: choose a name of its own, for example asterism" }}
{{- end }}
{{- range $index, $name := .resourceNames }}
{{- if regexMatch `^(requests\.|[^/]*kubernetes\.io/)` $name }}
{{- fail (printf "config.resourceNames[%d]: %s is not an extended resource: use the name with its domain, for example nvidia.com/gpu" $index $name) }}
{{- end }}
{{- end }}
{{- if not (regexMatch (include "asterism.labelSelectorPattern" .) (.nodeSelector | default "")) }}
{{- fail (printf "config.nodeSelector: %q is not a label selector: write it as for kubectl -l, for example pool=gpu,zone in (a,b); empty for every node" .nodeSelector) }}
{{- end }}
{{- end }}

{{/* What kubectl takes after -l; S stands for blanks. */}}
{{- define "asterism.labelSelectorPattern" -}}
{{- $name := `[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?` }}
{{- $part := `[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?` }}
{{- $key := printf `(%s(\.%s)*/)?%s` $part $part $name }}
{{- $value := printf `(%s)?` $name }}
{{- $set := printf `\(S%sS(,S%sS)*\)` $value $value }}
{{- $comparison := printf `S(==?|!=)S%s|S[<>]S[0-9]{1,18}|[ \t]+(in|notin)S%s` $value $set }}
{{- $requirement := printf `(!S%s|%s(%s)?)` $key $key $comparison }}
{{- printf `^S(%sS(,S%sS)*)?$` $requirement $requirement | replace "S" `[ \t]*` }}
{{- end }}

{{- define "asterism.checkLevels" -}}
{{- $last := int (sub (len .) 1) }}
{{- $names := dict }}
{{- $labels := dict }}
{{- range $index, $level := . }}
{{- $field := printf "config.levels[%d]" $index }}
{{- $between := and (gt $index 0) (lt $index $last) }}
{{- if hasKey $names .name }}
{{- fail (printf "%s.name: %s is there twice: give each level a name of its own" $field .name) }}
{{- end }}
{{- $_ := set $names .name true }}
{{- if and .source (not $between) }}
{{- fail (printf "%s.source: is not allowed on the first and the last level: remove it: the first level is the node, the last one the whole cluster" $field) }}
{{- end }}
{{- if and $between (not .source) }}
{{- fail (printf "%s.source: is missing: say which label holds the %s of a node, for example source: {label: asterism.dev/declared-%s}, or source: Auto" $field .name .name) }}
{{- end }}
{{- $label := "" }}
{{- if kindIs "map" .source }}
{{- $label = .source.label | default "" }}
{{- end }}
{{- with $label }}
{{- if hasPrefix "asterism.dev/domain-" . }}
{{- fail (printf "%s.source.label: %s is written by Asterism itself and never read: use asterism.dev/declared-%s or a label of your own" $field . $level.name) }}
{{- end }}
{{- if hasKey $labels . }}
{{- fail (printf "%s.source.label: %s is there twice: give each level a label of its own" $field .) }}
{{- end }}
{{- $_ := set $labels . true }}
{{- end }}
{{- end }}
{{- end }}

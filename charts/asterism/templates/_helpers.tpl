{{/* Labels of every object. Call it with (dict "root" $ "component" "controller"); without a component for shared objects. */}}
{{- define "asterism.labels" -}}
app.kubernetes.io/name: asterism
app.kubernetes.io/instance: {{ toYaml .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end }}

{{/* Labels that select the pods of a component: never change, unlike the labels above. */}}
{{- define "asterism.selector" -}}
app.kubernetes.io/name: asterism
app.kubernetes.io/component: {{ . }}
{{- end }}

{{/* The kube-scheduler of the cluster's own version: major.minor.patch without the suffixes of vendors. */}}
{{- define "asterism.schedulerTag" -}}
{{- with semver .Capabilities.KubeVersion.Version -}}
v{{ .Major }}.{{ .Minor }}.{{ .Patch }}
{{- end }}
{{- end }}

{{- define "asterism.extenderUrl" -}}
{{- .Values.scheduler.extenderUrl | default (printf "%s://asterism-extender.%s.svc:%v/extender" (include "asterism.scheme" . | lower) .Release.Namespace .Values.config.ports.https) }}
{{- end }}

{{/* Of both ports of the controller, as probes write it. */}}
{{- define "asterism.scheme" -}}
{{- ternary "HTTP" "HTTPS" (eq .Values.config.tls.mode "Plain") }}
{{- end }}

{{/* The names that the controller gives its own certificate (controller/certificate_keeper.cc), for somebody else's. */}}
{{- define "asterism.serverNames" -}}
- asterism-extender
- asterism-extender.{{ .Release.Namespace }}
- asterism-extender.{{ .Release.Namespace }}.svc
- asterism-extender.{{ .Release.Namespace }}.svc.cluster.local
- localhost
{{- end }}

{{/* The ConfigMaps' contents as text, so that a Deployment can restart when its own changes. */}}
{{- define "asterism.controllerConfig" -}}
apiVersion: config.asterism.dev/v1alpha1
kind: AsterismConfiguration
{{ toYaml .Values.config }}
{{- if .Values.agents.enabled }}
{{- $relays := .Values.agents.relays }}
agents:
  enabled: true
  namespace: {{ toYaml .Values.agents.namespace }}
  serviceAccount: asterism-agent
  {{- with .Values.agents.nodeSelector }}
  {{- $terms := list }}
  {{- range $key, $value := . }}
  {{- $terms = append $terms (printf "%s=%s" $key $value) }}
  {{- end }}
  nodeSelector: {{ join "," $terms | toJson }}
  {{- end }}
  relays: {{ toYaml $relays.mode }}
  relaysAboveNodes: {{ $relays.aboveNodes }}
  relayLevel: {{ toYaml $relays.level }}
  relayMembersMax: {{ $relays.membersMax }}
{{- end }}
{{- if .Values.launcher.enabled }}
launcher: {image: "{{ .Values.launcher.image.repository }}:{{ .Values.launcher.image.tag | default .Chart.AppVersion }}"}
{{- end }}
{{- end }}

{{- define "asterism.schedulerConfig" -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: {{ .Values.scheduler.parallelism }}
percentageOfNodesToScore: 100        # only GPU pods come here
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 10
clientConnection:
  qps: {{ .Values.scheduler.qps }}
  burst: {{ .Values.scheduler.burst }}
  contentType: application/vnd.kubernetes.protobuf
leaderElection:
  leaderElect: true
  resourceName: asterism-kube-scheduler    # with the default name it would fight for the lease of the cluster's own scheduler
  resourceNamespace: {{ toYaml .Release.Namespace }}
profiles:
- schedulerName: {{ toYaml .Values.config.schedulerName }}
extenders:
- urlPrefix: {{ include "asterism.extenderUrl" . | toYaml }}
  filterVerb: filter
  prioritizeVerb: prioritize
  preemptVerb: preempt
  weight: 100
  {{- if hasPrefix "https:" (include "asterism.extenderUrl" .) }}
  enableHTTPS: true
  # Certificate and key are read again when they change, the authority is not: it keeps its key for good.
  tlsConfig: {caFile: /etc/asterism-tls/ca.crt, certFile: /etc/asterism-tls/tls.crt, keyFile: /etc/asterism-tls/tls.key}
  {{- else }}
  enableHTTPS: false
  {{- end }}
  httpTimeout: {{ .Values.scheduler.extenderTimeout }}
  nodeCacheCapable: true
  ignorable: false                   # without the ledger nobody may hand out GPUs
  managedResources:
  {{- range .Values.config.resourceNames }}
  - {name: {{ . }}, ignoredByScheduler: false}
  {{- end }}
{{- end }}

{{/* Both programs write nothing to disk and need no privilege. */}}
{{- define "asterism.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "asterism.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Names, labels, and the parts that pods share. */}}

{{- define "sluice.fullname" -}}
{{- $name := .Values.nameOverride | default .Chart.Name }}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "sluice.selector" -}}
app.kubernetes.io/name: sluice
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sluice.labels" -}}
{{ include "sluice.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "sluice.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{/* The domain of the names that certificates give to roles: the release's own, whatever authority signs. */}}
{{- define "sluice.domain" -}}
{{ .Release.Name }}.{{ .Release.Namespace }}.sluice.internal
{{- end }}

{{- define "sluice.hasModelVolume" -}}
{{- with .Values.model }}{{ if or .source .persistentVolumeClaim .hostPath .image .initContainers }}yes{{ end }}{{ end }}
{{- end }}

{{/* ORG/NAME or ORG/NAME@REVISION; empty without a source. */}}
{{- define "sluice.hubModel" -}}
{{ trimPrefix "hf://" .Values.model.source }}
{{- end }}

{{- define "sluice.modelFolder" -}}
{{- if include "sluice.hasModelVolume" . }}/models{{ with .Values.model.path | default (include "sluice.hubModel" .) }}/{{ . }}{{ end }}
{{- else }}/usr/share/sluice/models/storyteller{{ end }}
{{- end }}

{{/* The folder of the model that drafts; empty: none does. */}}
{{- define "sluice.draftFolder" -}}
{{- with .Values.model.draft.path }}/models/{{ . }}{{ end }}
{{- end }}

{{- define "sluice.adapterArgs" -}}
{{- with .Values.model.adapters.path -}}
- --adapter_folder=/models/{{ . }}
- --max_loaded_adapters={{ $.Values.model.adapters.maxLoaded }}
{{- end }}
{{- end }}

{{- define "sluice.certificateMode" -}}
{{- if ne .Values.certificates.mode "auto" }}{{ .Values.certificates.mode }}
{{- else if .Capabilities.APIVersions.Has "cert-manager.io/v1" }}certManager
{{- else }}helm{{ end }}
{{- end }}

{{/* Name of the Secret with the certificate of a role; call with (list $ role). */}}
{{- define "sluice.certificateSecret" -}}
{{- $ := index . 0 }}
{{- if eq (include "sluice.certificateMode" $) "existing" }}{{ $.Values.certificates.existingPrefix }}-{{ index . 1 }}
{{- else }}{{ include "sluice.fullname" $ }}-tls-{{ index . 1 }}{{ end }}
{{- end }}

{{- define "sluice.tokensSecret" -}}
{{- .Values.auth.existingSecret | default (printf "%s-tokens" (include "sluice.fullname" .)) }}
{{- end }}

{{- define "sluice.roles" -}}
orchestrator tokenizer embedding shard sampler client
{{- end }}

{{/* What a pod of "restricted" Pod Security wants, and a little more. */}}
{{- define "sluice.podSecurity" -}}
automountServiceAccountToken: false
enableServiceLinks: false
serviceAccountName: {{ include "sluice.fullname" . }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ . }}
{{- end }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- end }}

{{/* Of the pods that read the model. */}}
{{- define "sluice.initContainers" -}}
{{- with .Values.model }}
{{- if or .source .initContainers }}
initContainers:
{{- with .source }}
- name: pull
  {{- include "sluice.containerSecurity" $ | nindent 2 }}
  {{- $model := splitn "@" 2 (include "sluice.hubModel" $) }}
  args:
  - pull
  - --out={{ include "sluice.modelFolder" $ }}
  {{- with $model._1 }}
  - --revision={{ . }}
  {{- end }}
  {{- with $.Values.model.hubEndpoint }}
  - --endpoint={{ . }}
  {{- end }}
  {{- if $.Values.model.hubTokenSecret }}
  - --token_file=/hub/token
  {{- end }}
  - {{ $model._0 }}
  resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 512Mi}}
  volumeMounts:
  - {name: model, mountPath: /models}
  {{- if $.Values.model.hubTokenSecret }}
  - {name: hub-token, mountPath: /hub, readOnly: true}
  {{- end }}
{{- end }}
{{- with .initContainers }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "sluice.containerSecurity" -}}
image: {{ include "sluice.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
terminationMessagePolicy: FallbackToLogsOnError
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  runAsNonRoot: true
  capabilities: {drop: [ALL]}
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/*
Readiness and liveness on the port `health`: who does not answer gets no calls after at most 6 s, and is killed after at most
8. There is no startup probe: a process is alive while it loads, and says so; --startup_timeout bounds that. A kubelet that
was restarted would wait for a startup probe of a process that no longer answers. Call with (list $ port ready), `ready` being
the service of grpc.health.v1 that a ready pod is.
*/}}
{{- define "sluice.probes" -}}
{{- $ := index . 0 }}
{{- $port := index . 1 }}
{{- $grpc := eq $.Values.probes.type "grpc" }}
{{- if eq $.Values.probes.type "auto" }}{{ $grpc = semverCompare ">=1.24.0-0" $.Capabilities.KubeVersion.Version }}{{ end }}
readinessProbe:
  {{- include "sluice.probe" (list $grpc $port (index . 2)) | nindent 2 }}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 2
livenessProbe:
  {{- include "sluice.probe" (list $grpc $port "live") | nindent 2 }}
  {{- include "sluice.liveness" $ | nindent 2 }}
{{- end }}

{{/* When a container that does not answer is killed. It can't end its streams, so that nothing is waited for. */}}
{{- define "sluice.liveness" -}}
initialDelaySeconds: 10
periodSeconds: 2
timeoutSeconds: 2
failureThreshold: 3
{{- if semverCompare ">=1.25.0-0" .Capabilities.KubeVersion.Version }}
terminationGracePeriodSeconds: 1
{{- end }}
{{- end }}

{{- define "sluice.probe" -}}
{{- if index . 0 -}}
grpc: {port: {{ index . 1 }}, service: {{ index . 2 | quote }}}
{{- else -}}
exec:
  command: [/usr/bin/sluice, health, --endpoint, "127.0.0.1:{{ index . 1 }}", --timeout, "2"{{ if index . 2 }}, --service, {{ index . 2 }}{{ end }}]
{{- end }}
{{- end }}

{{/* What those have who tell a collector of requests: orchestrator (or the whole pipeline) and gateway. */}}
{{- define "sluice.otlpArgs" -}}
{{- with .Values.otlp }}
{{- if .endpoint }}
- --otlp_endpoint={{ .endpoint }}
- --otlp_sample_ratio={{ .sampleRatio }}
{{- if .authorityConfigMap }}
- --otlp_tls_ca=/etc/sluice/otlp-ca/ca.crt
{{- end }}
{{- if .tokenSecret }}
- --otlp_token_file=/etc/sluice/otlp-token/token
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Variables of a container without others of its own. */}}
{{- define "sluice.extraEnv" -}}
{{- with .Values.extraEnv }}
env: {{ toYaml . | nindent 0 }}
{{- end }}
{{- end }}

{{- define "sluice.extraMounts" -}}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "sluice.extraVolumes" -}}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Where pods run, in place of what the chart prefers; empty: nothing is said. */}}
{{- define "sluice.affinity" -}}
{{- with .Values.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* --threads and --cpus of a process. (list $ process) */}}
{{- define "sluice.cpuArgs" -}}
{{- $values := (index . 0).Values }}
{{- with index $values.threads (index . 1) }}
- --threads={{ . }}
{{- end }}
{{- with index $values.cpus (index . 1) }}
- --cpus={{ . }}
{{- end }}
{{- end }}

{{/* The ConfigMap of model.chatTemplate: another name for another text, so that pods are replaced. */}}
{{- define "sluice.chatTemplateName" -}}
{{ include "sluice.fullname" . }}-chat-template-{{ sha256sum .Values.model.chatTemplate | trunc 8 }}
{{- end }}

{{- define "sluice.chatTemplateArgs" -}}
{{- if .Values.model.chatTemplate }}
- --chat_template=/etc/sluice/chat-template/chat_template.jinja
{{- end }}
{{- end }}

{{- define "sluice.chatTemplateMount" -}}
{{- if .Values.model.chatTemplate }}
- {name: chat-template, mountPath: /etc/sluice/chat-template, readOnly: true}
{{- end }}
{{- end }}

{{- define "sluice.chatTemplateVolume" -}}
{{- if .Values.model.chatTemplate }}
- name: chat-template
  configMap: {name: {{ include "sluice.chatTemplateName" . }}}
{{- end }}
{{- end }}

{{/* Files and batches of the gateway. */}}
{{- define "sluice.batchArgs" -}}
{{- with .Values.gateway.batches }}
{{- if .persistentVolumeClaim }}
- --batch_dir=/var/lib/sluice/batches
{{- if .tokenSecret }}
- --batch_token_file=/etc/sluice/batch-token/token
{{- end }}
- --batch_concurrency={{ .concurrency }}
- --batch_quota_mib={{ .quotaMib }}
{{- end }}
{{- end }}
{{- end }}

{{- define "sluice.batchMounts" -}}
{{- with .Values.gateway.batches }}
{{- if .persistentVolumeClaim }}
- {name: batches, mountPath: /var/lib/sluice}
{{- if .tokenSecret }}
- {name: batch-token, mountPath: /etc/sluice/batch-token, readOnly: true}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "sluice.batchVolumes" -}}
{{- with .Values.gateway.batches }}
{{- if .persistentVolumeClaim }}
- name: batches
  persistentVolumeClaim: {claimName: {{ .persistentVolumeClaim }}}
{{- with .tokenSecret }}
- name: batch-token
  secret: {secretName: {{ . }}, defaultMode: 0440, items: [{key: token, path: token}]}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The gateway's own token, for asking orchestrators what their caches hold. */}}
{{- define "sluice.orchestratorTokenVolumes" -}}
{{- with .Values.gateway.orchestratorTokenSecret }}
- name: orchestrator-token
  secret: {secretName: {{ . }}, defaultMode: 0440, items: [{key: token, path: token}]}
{{- end }}
{{- end }}

{{/* With the variables of extraEnv. */}}
{{- define "sluice.otlpEnv" -}}
{{- if not .Values.otlp.endpoint }}
{{- include "sluice.extraEnv" . }}
{{- else }}
env:
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: OTEL_RESOURCE_ATTRIBUTES
  value: {{ printf "service.namespace=%s,k8s.namespace.name=%s,k8s.pod.name=$(POD_NAME)%s" (include "sluice.fullname" .) .Release.Namespace (ternary "" (printf ",%s" .Values.otlp.resourceAttributes) (empty .Values.otlp.resourceAttributes)) | quote }}
{{- end }}
{{- end }}

{{- define "sluice.otlpMounts" -}}
{{- if .Values.otlp.endpoint }}
{{- if .Values.otlp.authorityConfigMap }}
- {name: otlp-ca, mountPath: /etc/sluice/otlp-ca, readOnly: true}
{{- end }}
{{- if .Values.otlp.tokenSecret }}
- {name: otlp-token, mountPath: /etc/sluice/otlp-token, readOnly: true}
{{- end }}
{{- end }}
{{- end }}

{{- define "sluice.otlpVolumes" -}}
{{- if .Values.otlp.endpoint }}
{{- with .Values.otlp.authorityConfigMap }}
- name: otlp-ca
  configMap: {name: {{ . }}, items: [{key: ca.crt, path: ca.crt}]}
{{- end }}
{{- with .Values.otlp.tokenSecret }}
- name: otlp-token
  secret: {secretName: {{ . }}, defaultMode: 0440, items: [{key: token, path: token}]}
{{- end }}
{{- end }}
{{- end }}

{{- define "sluice.modelVolume" -}}
{{- if include "sluice.hasModelVolume" . }}
- name: model
  {{- with .Values.model }}
  {{- if .persistentVolumeClaim }}
  persistentVolumeClaim: {claimName: {{ .persistentVolumeClaim }}{{ if not (or .source .initContainers) }}, readOnly: true{{ end }}}
  {{- else if .hostPath }}
  hostPath: {path: {{ .hostPath }}, type: Directory}
  {{- else if .image }}
  image: {reference: {{ .image }}, pullPolicy: IfNotPresent}
  {{- else }}
  emptyDir: {sizeLimit: {{ .emptyDirSize }}}
  {{- end }}
  {{- end }}
{{- with .Values.model.hubTokenSecret }}
- name: hub-token
  secret: {secretName: {{ . }}, defaultMode: 0440, items: [{key: token, path: token}]}
{{- end }}
{{- end }}
{{- end }}

{{- define "sluice.modelMount" -}}
{{- if include "sluice.hasModelVolume" . }}
- {name: model, mountPath: /models, readOnly: true}
{{- end }}
{{- end }}

{{/* How many processes the pod of the layout `single` has: each has a port for its metrics. */}}
{{- define "sluice.numProcesses" -}}
{{ add 4 (mul .Values.model.tensorParallel .Values.model.pipelineParallel) (ternary 3 0 (ne (include "sluice.draftFolder" .) "")) }}
{{- end }}

{{/* MiB for keys and values of a whole pipeline; 0: what GPUs have left. */}}
{{- define "sluice.kvCacheMib" -}}
{{- if or .Values.model.kvCacheMib (gt (int .Values.gpu.perRank) 0) }}{{ .Values.model.kvCacheMib }}{{ else }}512{{ end }}
{{- end }}

{{/* Resources of a container with GPUs among them. (list $ resources count) */}}
{{- define "sluice.resources" -}}
{{- $ := index . 0 }}
{{- $resources := deepCopy (index . 1) }}
{{- if gt (int (index . 2)) 0 }}
{{- $_ := set $resources.limits $.Values.gpu.resource (toString (index . 2)) }}
{{- end }}
{{- toYaml $resources }}
{{- end }}

{{/* GPUs of a process of the layout services, by its role. (list $ role) */}}
{{- define "sluice.numGpus" -}}
{{- with (index . 0).Values.gpu }}
{{- if eq (int .perRank) 0 }}0{{ else }}{{ index (dict "shard" .perRank "embedding" .embedding "sampler" .sampler) (index $ 1) | default 0 }}{{ end }}
{{- end }}
{{- end }}

{{- define "sluice.terminationSeconds" -}}
{{ add .Values.drain.delaySeconds .Values.drain.timeoutSeconds 10 }}
{{- end }}

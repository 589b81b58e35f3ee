{{/* The HTTP gateway, in a pod of its own or beside the pipeline. Its probes ask what needs no token. */}}
{{- define "sluice.gatewayContainer" -}}
- name: gateway
  {{- include "sluice.containerSecurity" . | nindent 2 }}
  command: [/usr/bin/sluice-gateway]
  {{- include "sluice.otlpEnv" . | nindent 2 }}
  args:
  {{- if eq .Values.gateway.placement "sidecar" }}
  - --orchestrator=localhost:8700
  {{- else }}
  # Every pod behind the Service without an address of its own, as they come and go: a call goes where its prompt is cached.
  - --orchestrator=dns:///{{ include "sluice.fullname" . }}-headless.{{ .Release.Namespace }}.svc:8700
  {{- end }}
  - --orchestrator_tls_ca=/etc/sluice/public/ca.crt
  {{- if .Values.gateway.orchestratorTokenSecret }}
  - --orchestrator_token_file=/etc/sluice/orchestrator-token/token
  {{- end }}
  - --listen=0.0.0.0:8080
  - --termination_log=/dev/termination-log
  - --tls_cert=/etc/sluice/public/tls.crt
  - --tls_key=/etc/sluice/public/tls.key
  - --drain_delay={{ .Values.drain.delaySeconds }}s
  - --drain_timeout={{ .Values.drain.timeoutSeconds }}s
  {{- with .Values.gateway.corsOrigin }}
  - --cors_origin={{ . }}
  {{- end }}
  {{- include "sluice.cpuArgs" (list . "gateway") | nindent 2 }}
  {{- include "sluice.batchArgs" . | nindent 2 }}
  {{- include "sluice.otlpArgs" . | nindent 2 }}
  {{- range .Values.gateway.extraArgs }}
  - {{ . | quote }}
  {{- end }}
  ports:
  - {name: http, containerPort: 8080, protocol: TCP}
  # Ready is who has a pipeline behind it, or had one while calls may wait. While pipelines are replaced all gateways may take
  # the one that ends for theirs, and a Service without any pod turns everybody away. One that does not answer is told apart.
  readinessProbe:
    httpGet: {path: "/health?grace={{ .Values.upgrade.holdSeconds }}", port: http, scheme: HTTPS}
    periodSeconds: 2
    timeoutSeconds: 2
    failureThreshold: 2
  livenessProbe:
    httpGet: {path: /v2/health/live, port: http, scheme: HTTPS}
    {{- include "sluice.liveness" . | nindent 4 }}
  resources: {{ toYaml .Values.resources.gateway | nindent 4 }}
  volumeMounts:
  - {name: tmp, mountPath: /tmp}
  - {name: public, mountPath: /etc/sluice/public, readOnly: true}
  {{- if .Values.gateway.orchestratorTokenSecret }}
  - {name: orchestrator-token, mountPath: /etc/sluice/orchestrator-token, readOnly: true}
  {{- end }}
  {{- include "sluice.batchMounts" . | nindent 2 }}
  {{- include "sluice.otlpMounts" . | nindent 2 }}
  {{- include "sluice.extraMounts" . | nindent 2 }}
{{- end }}

{{/* The pod of a rank, or of all ranks of a stage. (list $ pipeline stage) */}}
{{- define "sluice.stagePod" -}}
{{- $ := index . 0 }}
{{- $stage := index . 2 }}
{{- $part := list $ (index . 1) (printf "stage-%d" $stage) }}
{{- $ranks := int $.Values.model.tensorParallel }}
{{- $stages := int $.Values.model.pipelineParallel }}
{{- $pods := eq $.Values.ranks.placement "pods" }}
metadata: {{ include "sluice.podMetadata" $part | nindent 2 }}
spec:
  {{- include "sluice.podSecurity" $ | nindent 2 }}
  {{- include "sluice.initContainers" $ | nindent 2 }}
  {{- if and $pods (gt $ranks 1) (not $.Values.affinity) }}
  # A node that is lost takes one rank, and a node's memory bandwidth serves one.
  affinity:
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: {{ include "sluice.partSelector" $part | nindent 14 }}
  {{- else }}
  {{- include "sluice.nearPipeline" $part | nindent 2 }}
  {{- end }}
  terminationGracePeriodSeconds: 2
  containers:
  {{- range $container := until (ternary 1 $ranks $pods) }}
  {{- $port := add 8710 $container }}
  {{- $health := add 8801 $container }}
  - name: rank{{ if not $pods }}-{{ $container }}{{ end }}
    {{- include "sluice.containerSecurity" $ | nindent 4 }}
    command: [/usr/bin/sluice-shard]
    {{- if not $pods }}
    {{- include "sluice.extraEnv" $ | nindent 4 }}
    {{- else }}
    env:
    {{- with $.Values.extraEnv }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    - name: POD_NAME
      valueFrom: {fieldRef: {fieldPath: metadata.name}}
    - name: POD_IP
      valueFrom: {fieldRef: {fieldPath: status.podIP}}
    {{- end }}
    args:
    {{- include "sluice.processArgs" (list $ "shard" $port $health) | nindent 4 }}
    - --num_stages={{ $stages }}
    - --stage={{ $stage }}
    - --num_ranks={{ $ranks }}
    {{- if $pods }}
    - --rank_of=$(POD_NAME)
    {{- if gt $ranks 1 }}
    - --communicator_address=$(POD_IP)
    {{- if $.Values.ranks.trustedNetwork }}
    - --trusted_network
    {{- end }}
    {{- end }}
    {{- else }}
    - --rank={{ $container }}
    {{- end }}
    - --weights={{ $.Values.model.weights }}
    {{- with $.Values.model.kvDtype }}
    - --kv_dtype={{ . }}
    {{- end }}
    {{- if gt (int $.Values.gpu.perRank) 0 }}
    - --device=cuda
    {{- end }}
    - --kv_cache_mib={{ div (add (include "sluice.kvCacheMib" $) (sub (mul $ranks $stages) 1)) (mul $ranks $stages) }}
    {{- include "sluice.cpuArgs" (list $ "shard") | nindent 4 }}
    - --max_step_tokens={{ $.Values.limits.stepTokens }}
    {{- if $.Values.metrics.enabled }}
    - --metrics_port={{ add 8720 $container }}
    - --metrics_host=0.0.0.0
    {{- end }}
    {{- range $.Values.extraArgsOf.shard }}
    - {{ . | quote }}
    {{- end }}
    ports:
    {{- if $.Values.metrics.enabled }}
    - {name: metrics-{{ $container }}, containerPort: {{ add 8720 $container }}, protocol: TCP}
    {{- end }}
    - {name: private{{ if $container }}-{{ $container }}{{ end }}, containerPort: {{ $port }}, protocol: TCP}
    - {name: health{{ if $container }}-{{ $container }}{{ end }}, containerPort: {{ $health }}, protocol: TCP}
    {{- include "sluice.probes" (list $ $health "") | nindent 4 }}
    resources: {{ include "sluice.resources" (list $ $.Values.resources.shard $.Values.gpu.perRank) | nindent 6 }}
    volumeMounts:
    {{- include "sluice.processMounts" $ | nindent 4 }}
    {{- if not $pods }}
    - {name: shm, mountPath: /dev/shm}
    {{- end }}
  {{- end }}
  volumes:
  {{- include "sluice.processVolumes" (list $ "shard") | nindent 2 }}
  {{- if not $pods }}
  - name: shm
    emptyDir: {medium: Memory, sizeLimit: {{ $.Values.ranks.sharedMemory }}}
  {{- end }}
{{- end }}

{{/*
The layout `services`. A pipeline is numbered from 0; its parts are named FULLNAME-N-PART, and reach each other by the names
of Services without addresses of their own, on port 8710, by mutual TLS by role.
*/}}

{{/* (list $ pipeline part) */}}
{{- define "sluice.part" -}}
{{ include "sluice.fullname" (index . 0) }}-{{ index . 1 }}-{{ index . 2 }}
{{- end }}

{{- define "sluice.partSelector" -}}
{{ include "sluice.selector" (index . 0) }}
app.kubernetes.io/component: {{ index . 2 }}
sluice/pipeline: {{ index . 1 | quote }}
{{- end }}

{{/* Whether an upgrade leaves a pipeline as it is. (list $ pipeline) */}}
{{- define "sluice.isKept" -}}
{{- with (index . 0).Values.upgrade.pipelines }}{{ if ge (int (index $ 1)) (int .) }}yes{{ end }}{{ end }}
{{- end }}

{{/* Address of a part's Service. */}}
{{- define "sluice.address" -}}
{{ include "sluice.part" . }}.{{ (index . 0).Release.Namespace }}.svc:8710
{{- end }}

{{/* Whether the ranks of a stage are the pods of a LeaderWorkerSet. */}}
{{- define "sluice.leaderWorkerSets" -}}
{{- $has := .Capabilities.APIVersions.Has "leaderworkerset.x-k8s.io/v1" }}
{{- with .Values }}
{{- if and (eq .ranks.placement "pods") (gt (int .model.tensorParallel) 1) (or (eq .ranks.controller "leaderWorkerSet") (and (eq .ranks.controller "auto") $has)) }}yes{{ end }}
{{- end }}
{{- end }}

{{/* Every shard of a pipeline: ranks by comma, stages by semicolon. (list $ pipeline) */}}
{{- define "sluice.shardAddresses" -}}
{{- $ := index . 0 }}
{{- $pipeline := index . 1 }}
{{- $stages := list }}
{{- range $stage := until (int $.Values.model.pipelineParallel) }}
{{- $ranks := list }}
{{- $part := include "sluice.part" (list $ $pipeline (printf "stage-%d" $stage)) }}
{{- range $rank := until (int $.Values.model.tensorParallel) }}
{{- if and (include "sluice.leaderWorkerSets" $) (gt $rank 0) }}
{{- $ranks = append $ranks (printf "%s-0-%d.%s.%s.svc:8710" $part $rank $part $.Release.Namespace) }}
{{- else if eq $.Values.ranks.placement "pods" }}
{{- $ranks = append $ranks (printf "%s-%d.%s.%s.svc:8710" $part $rank $part $.Release.Namespace) }}
{{- else }}
{{- $ranks = append $ranks (printf "%s-0.%s.%s.svc:%d" $part $part $.Release.Namespace (add 8710 $rank)) }}
{{- end }}
{{- end }}
{{- $stages = append $stages (join "," $ranks) }}
{{- end }}
{{- join ";" $stages }}
{{- end }}

{{/* The services of a pipeline that are a Deployment each, by the names of their parts: those of the model that drafts as well. */}}
{{- define "sluice.deployedParts" -}}
tokenizer embedding sampler{{ if include "sluice.draftFolder" . }} {{ include "sluice.draftParts" . }}{{ end }}
{{- end }}

{{/* The parts of a pipeline that serve the model that drafts. */}}
{{- define "sluice.draftParts" -}}
draft-embedding draft-shard draft-sampler
{{- end }}

{{/* The role of a deployed part: which program serves it. Call with the part. */}}
{{- define "sluice.roleOfPart" -}}
{{- get (dict "tokenizer" "tokenizer" "embedding" "embedding" "sampler" "sampler"
  "draft-embedding" "embedding" "draft-shard" "shard" "draft-sampler" "sampler") . }}
{{- end }}

{{/* Flags of every process. (list $ part port healthPort) */}}
{{- define "sluice.processArgs" -}}
{{- $ := index . 0 }}
{{- if has (index . 1) (splitList " " (include "sluice.draftParts" $)) }}
- --model={{ include "sluice.draftFolder" $ }}
{{- else }}
- --model={{ include "sluice.modelFolder" $ }}
{{- with $.Values.model.ropeScaling }}
- --rope_scaling={{ . }}
{{- end }}
{{- end }}
- --listen=0.0.0.0:{{ index . 2 }}
- --health_listen=0.0.0.0:{{ index . 3 }}
- --startup_timeout={{ $.Values.probes.startupSeconds }}s
- --termination_log=/dev/termination-log
- --tls_cert=/etc/sluice/tls/tls.crt
- --tls_key=/etc/sluice/tls/tls.key
- --tls_ca=/etc/sluice/tls/ca.crt
- --tls_domain={{ include "sluice.domain" $ }}
{{- end }}

{{- define "sluice.processMounts" -}}
- {name: tmp, mountPath: /tmp}
- {name: tls, mountPath: /etc/sluice/tls, readOnly: true}
{{- include "sluice.modelMount" . }}
{{- include "sluice.extraMounts" . }}
{{- end }}

{{/* (list $ role) */}}
{{- define "sluice.processVolumes" -}}
- name: tmp
  emptyDir: {sizeLimit: 64Mi}
- name: tls
  secret: {secretName: {{ include "sluice.certificateSecret" . }}, defaultMode: 0440}
{{- include "sluice.modelVolume" (index . 0) }}
{{- include "sluice.extraVolumes" (index . 0) }}
{{- end }}

{{- define "sluice.podMetadata" -}}
{{- $ := index . 0 }}
labels:
  {{- include "sluice.labels" $ | nindent 2 }}
  app.kubernetes.io/component: {{ index . 2 }}
  sluice/pipeline: {{ index . 1 | quote }}
  {{- with $.Values.podLabels }}{{ toYaml . | nindent 2 }}{{ end }}
{{- with $.Values.podAnnotations }}
annotations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Parts of a pipeline are best near each other: every token passes all of them. */}}
{{- define "sluice.nearPipeline" -}}
{{- if (index . 0).Values.affinity }}
{{- include "sluice.affinity" (index . 0) }}
{{- else }}
affinity:
  podAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 50
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "sluice.selector" (index . 0) | nindent 12 }}
            sluice/pipeline: {{ index . 1 | quote }}
{{- end }}
{{- end }}

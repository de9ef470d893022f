{{/* Name of the release's objects. */}}
{{- define "pgqueue.name" -}}
{{- if contains "pgqueue" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-pgqueue" (.Release.Name | trunc 32 | trimSuffix "-") }}{{ end }}
{{- end }}

{{/* Labels by which selectors find the pods of a role. Takes (dict "root" $ "role" "…"). */}}
{{- define "pgqueue.selector" -}}
app.kubernetes.io/name: pgqueue
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .role }}
{{- end }}

{{- define "pgqueue.labels" -}}
{{ include "pgqueue.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "pgqueue.serviceAccount" -}}
{{- if .Values.serviceAccount.name }}{{ .Values.serviceAccount.name }}{{ else if .Values.serviceAccount.create }}{{ include "pgqueue.name" . }}{{ else }}default{{ end }}
{{- end }}

{{- define "pgqueue.image" -}}
{{- with .Values.image }}{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}{{ end }}
{{- end }}

{{/* Where a role finds its connection string: a secretKeyRef. Takes (dict "root" $ "role" "…"). */}}
{{- define "pgqueue.secretRef" -}}
{{- $database := .root.Values.database -}}
name: {{ get $database.secrets .role | default $database.secret }}
key: {{ $database.key }}
{{- end }}

{{- define "pgqueue.env" -}}
- name: PGQUEUE_DATABASE_URL
  valueFrom:
    secretKeyRef:
      {{- include "pgqueue.secretRef" . | nindent 6 }}
{{- end }}

{{/* Pods run as the image's user 1000, without privileges, and without a token of the cluster's. */}}
{{- define "pgqueue.podSecurity" -}}
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: 1000
  runAsGroup: 1000
  fsGroup: 1000
  seccompProfile: { type: RuntimeDefault }
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Arguments of every command. */}}
{{- define "pgqueue.schema" -}}
- --schema
- {{ .Values.database.schema | quote }}
{{- end }}

{{- define "pgqueue.container" -}}
image: {{ include "pgqueue.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
{{- end }}

{{/* Pods of a role go to different nodes if they can. Takes (dict "root" $ "role" "…"). */}}
{{- define "pgqueue.apart" -}}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: {{- include "pgqueue.selector" . | nindent 14 }}
{{- end }}

{{/* Health of a scheduler or a worker. */}}
{{- define "pgqueue.probes" -}}
ports:
  - { name: health, containerPort: 9464 }
startupProbe:
  httpGet: { path: /live, port: health }
  periodSeconds: 2
  failureThreshold: 30
livenessProbe:
  httpGet: { path: /live, port: health }
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: { path: /ready, port: health }
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}

{{- define "pgqueue.placement" -}}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

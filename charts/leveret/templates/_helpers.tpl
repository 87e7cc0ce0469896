{{- define "leveret.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "leveret.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "leveret.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "leveret.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "leveret.selector" -}}
app.kubernetes.io/name: {{ include "leveret.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "leveret.metadata" -}}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "leveret.selector" . | nindent 2 }}
  app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .Release.Service }}
  helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
  {{- with .Values.commonLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "leveret.image" -}}
{{- $name := printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- if .Values.image.registry -}}{{ .Values.image.registry }}/{{- end -}}{{ $name }}
{{- end -}}

{{- define "leveret.passwordSecret" -}}
{{- default (include "leveret.fullname" .) .Values.auth.existingPasswordSecret -}}
{{- end -}}

{{- define "leveret.cookieSecret" -}}
{{- default (include "leveret.fullname" .) .Values.auth.existingErlangSecret -}}
{{- end -}}

{{- define "leveret.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "leveret.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

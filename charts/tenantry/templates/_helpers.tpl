{{/* Labels of every object. Argument: a dict with root and component. */}}
{{- define "tenantry.labels" -}}
{{ include "tenantry.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: tenantry
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{/* Labels by which a Deployment finds its pods; they never change. */}}
{{- define "tenantry.selector" -}}
app.kubernetes.io/name: tenantry-{{ .component }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* An image reference. Argument: a dict with root and image. */}}
{{- define "tenantry.image" -}}
{{- $tag := .image.tag | default .root.Chart.AppVersion -}}
{{- $separator := hasPrefix "sha256:" $tag | ternary "@" ":" -}}
{{ .image.repository }}{{ $separator }}{{ $tag }}
{{- end }}

{{/* What every container may not do. */}}
{{- define "tenantry.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* As whom every pod runs. */}}
{{- define "tenantry.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* Where a pod may run. Argument: the values of the component. */}}
{{- define "tenantry.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

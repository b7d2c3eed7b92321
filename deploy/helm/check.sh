#!/bin/bash
# Checks the Helm chart: it renders the chart with several sets of values, and compares every
# object with what Kubernetes accepts; a field that Kubernetes does not know is a mistake.
#
#   bash deploy/helm/check.sh
#
# It builds helm and kubeconform as tools/helm/go.mod pins them, and takes the description of
# Kubernetes' objects from its source. Nothing talks to a cluster.
set -euo pipefail
cd "$(dirname "$0")"
kubernetes=1.34.2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -trimpath"
export HELM_CACHE_HOME=$work HELM_CONFIG_HOME=$work HELM_DATA_HOME=$work

fail() {
	printf 'FAILED: %s\n' "$*" >&2
	exit 1
}

mkdir "$work/schemas"
(
	cd ../../tools/helm
	# To optimize these programs would take longer than they run.
	go build -gcflags 'all=-N -l' -gcflags 'std=' -ldflags "-s -w" -o "$work/" tool
	source=$(cd "$work" && GOFLAGS=-mod=mod go mod download -json "k8s.io/kubernetes@v$kubernetes" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
	go run ./schemas "$source" "$work/schemas"
)

render() { "$work/helm" template team lilac --namespace agents --kube-version "$kubernetes" "$@"; }

# conforms reads objects.
conforms() {
	"$work/kubeconform" -strict -summary -kubernetes-version "$kubernetes" \
		-schema-location "$work/schemas/{{ .ResourceKind }}{{ .KindSuffix }}.json"
}

# check NAME OBJECTS ARGUMENTS... renders the chart and compares it with Kubernetes' description.
check() {
	local name=$1 objects=$2
	shift 2
	render "$@" >"$work/$name.yaml" || fail "$name: the chart cannot be rendered"
	conforms <"$work/$name.yaml" || fail "$name: Kubernetes would refuse an object"
	(($(grep -c '^kind: ' "$work/$name.yaml") == objects)) || fail "$name: the chart has $(grep -c '^kind: ' "$work/$name.yaml") objects, want $objects"
	local containers
	containers=$(grep -c ' image: ' "$work/$name.yaml")
	for rule in 'readOnlyRootFilesystem: true' 'allowPrivilegeEscalation: false' 'runAsNonRoot: true'; do
		(($(grep -c "$rule" "$work/$name.yaml") == containers)) || fail "$name: not every container has $rule"
	done
}

# refused TEXT ARGUMENTS... expects that the chart refuses values with a sentence.
refused() {
	local text=$1
	shift
	! render "$@" >"$work/refused" 2>&1 || fail "the values $* are accepted"
	grep -q "$text" "$work/refused" || fail "the values $* are refused without saying '$text': $(cat "$work/refused")"
}

nodes=(--set replicas=3 --set postgresql.enabled=true --set 'blobs=s3://lilac?region=eu-central-1')

"$work/helm" lint lilac --strict --quiet --kube-version "$kubernetes"
check one 4
check "with everything" 5 --set ingress.enabled=true --set ingress.className=nginx --set ingress.tlsSecret=tls --set sandbox.enabled=true \
	--set 'env[0].name=LILAC_MODEL,env[0].value=openai/gpt-5' --set 'imagePullSecrets[0].name=registry' --set persistence.storageClass=fast \
	--set serviceAccountName=lilac --set nodeSelector.disk=ssd --set 'config.model=anthropic/claude-sonnet-5-5' --set podAnnotations.team=agents
check postgresql 4 --set postgresql.enabled=true
check nodes 6 "${nodes[@]}" --set workspaces.existingClaim=files --set ingress.enabled=true

# Every node is reached by the others, under a name of its own.
grep -qF 'value: "http://$(POD_NAME).team-lilac-nodes.agents.svc:7420"' "$work/nodes.yaml" || fail "nodes: a node has no address for the others"
grep -q '^  name: team-lilac-nodes$' "$work/nodes.yaml" || fail "nodes: there is no Service for that address"
! grep -q LILAC_NODE_URL "$work/one.yaml" || fail "one: a single node has an address for others"

grep -q '^ *lifecycle: {preStop' "$work/nodes.yaml" || fail "nodes: a pod ends while the Service still sends requests to it"

# The chart accepts the commands of the documents.
documented=0
while IFS= read -r arguments; do
	eval "arguments=(${arguments//…/x})"
	render "${arguments[@]}" >"$work/documented.yaml" || fail "a command of docs/install.md is refused: ${arguments[*]}"
	documented=$((documented + 1))
done < <(sed -e ':a' -e '/\\$/N; s/\\\n *//; ta' ../../docs/install.md | sed -n 's#^helm install lilac deploy/helm/lilac -n lilac ##p')
((documented >= 2)) || fail "docs/install.md has $documented commands of helm, want 2"

# Lilac accepts the configuration files of the chart.
(cd ../.. && go build -o "$work/lilac" ./cmd/lilac)
mkdir "$work/home" # the usual workspace is ~/lilac, which is the program in $work
for name in one nodes "with everything"; do
	sed -n '/^  config.yaml: |/,/^---/{s/^    //p}' "$work/$name.yaml" >"$work/config.yaml"
	grep -q team-lilac.agents.svc "$work/config.yaml" || fail "$name: Lilac would refuse requests through the Service"
	HOME=$work/home ANTHROPIC_API_KEY=key "$work/lilac" config check --config "$work/config.yaml" || fail "$name: Lilac refuses the configuration"
done

refused 'Several nodes need PostgreSQL' --set replicas=2
refused 'Several nodes need a bucket' --set replicas=2 --set postgresql.enabled=true
refused 'replicas' --set replicas=0
refused 'replica' --set replica=2
refused 'existingSecret' --set existingSecret=

# Controls: a misspelt field, a missing one, and a wrong type are found.
! sed 's/readOnlyRootFilesystem/readOnlyRootFileSystem/' "$work/one.yaml" | conforms >/dev/null || fail "a misspelt field passes"
! sed '/^  selector:/,/^  template:/{/^  template:/!d}' "$work/one.yaml" | conforms >/dev/null || fail "a StatefulSet without a selector passes"
! sed 's/^  replicas: 1/  replicas: one/' "$work/one.yaml" | conforms >/dev/null || fail "a wrong type passes"
echo "The chart is good."

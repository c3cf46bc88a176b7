#!/bin/sh
# Start a throw-away cluster with kind or k3d, publish the fake devices of the demonstration, and install our chart.
# usage: try-cluster.sh [delete]        NAME (default dra-try) names the cluster.
# Two things outlive it: kind and k3d make its context the current one of your kubeconfig, and `delete` keeps the image
# dra-reconciler:try.
set -eu
cd "$(dirname "$0")/.."
name=${NAME:-dra-try}
has() { command -v "$1" >/dev/null 2>&1; }

missing=
has kind || has k3d || missing="$missing
  kind or k3d   https://kind.sigs.k8s.io, https://k3d.io"
has docker || missing="$missing
  docker        which runs the cluster and builds the image"
has kubectl || missing="$missing
  kubectl       https://kubernetes.io/docs/tasks/tools"
has helm || missing="$missing
  helm          https://helm.sh/docs/intro/install"
if [ -n "$missing" ]; then
    echo "A cluster needs these programs, which are missing:$missing" >&2
    echo "Without them, \`make run\` and docs/tutorial need neither a cluster nor a container engine." >&2
    exit 1
fi
tool=kind; has kind || tool=k3d

if [ "${1:-}" = delete ]; then
    if [ "$tool" = kind ]; then kind delete cluster --name "$name"; else k3d cluster delete "$name"; fi
    exit
fi

image=dra-reconciler:try
docker build -f deploy/Containerfile -t "$image" .
built=$(docker image inspect -f '{{.Id}}' "$image")
# DRA is on by default since 1.34; partitions need their gate until 1.36.
gates=DRAPartitionableDevices=true
if [ "$tool" = kind ]; then
    kind get clusters 2>/dev/null | grep -qx "$name" || kind create cluster --name "$name" --config - <<END
kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
featureGates: {DRAPartitionableDevices: true}
nodes: [{role: control-plane}, {role: worker}, {role: worker}]
END
    kind load docker-image "$image" --name "$name"
    context=kind-$name
else
    k3d cluster list --no-headers 2>/dev/null | cut -d ' ' -f 1 | grep -qx "$name" || k3d cluster create "$name" \
        --agents 2 --k3s-arg "--kube-apiserver-arg=feature-gates=$gates@server:*" \
        --k3s-arg "--kube-scheduler-arg=feature-gates=$gates@server:*" --k3s-arg "--kubelet-arg=feature-gates=$gates@all:*"
    k3d image import "$image" --cluster "$name"
    context=k3d-$name
fi
kubectl="kubectl --context $context"

# The slices of the demonstration, for the nodes of this cluster.
workers=$($kubectl get nodes -o name | sed 's|^node/||' | grep -v -e control-plane -e server | sort)
first=$(echo "$workers" | sed -n 1p) second=$(echo "$workers" | sed -n 2p)
demo=reconciler/cli/demo/manifests
$kubectl apply -f "$demo/10-classes.yaml"
sed "s/a100-0/$first/g" "$demo/12-a100-mig.yaml" | $kubectl apply -f -
sed "s/h100-0/$second/g" "$demo/13-h100.yaml" | $kubectl apply -f -

# The annotation starts new pods if a cluster that is used again has a new image: its tag is the same.
helm --kube-context "$context" upgrade --install dra-reconciler deploy/helm/dra-reconciler -n dra-reconciler \
    --create-namespace --set 'ownDrivers={gpu.nvidia.com,dra.net}' \
    --set image.repository=dra-reconciler --set image.tag=try --set image.pullPolicy=Never \
    --set-string "podAnnotations.image=$built" --wait
echo
echo "Try it:   dra-reconciler top --context $context"
echo "Test it (uninstall first: the installed one would be faster than the tested one):"
echo "          helm --kube-context $context uninstall dra-reconciler -n dra-reconciler"
echo "          kubectl --context $context delete namespace dra-reconciler"
echo "          kubectl --context $context delete deviceclasses gpu.nvidia.com mig.nvidia.com"
echo "          DRA_RECONCILER_TEST_CONTEXT=$context make test-cluster"
echo "End it:   $0 delete"
echo "          docker rmi $image"
echo "Creating the cluster made $context the current context; \`kubectl config use-context NAME\` selects another."

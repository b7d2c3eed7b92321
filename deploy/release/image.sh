#!/bin/bash
# Builds the container image and checks it as a user would: it starts on a read-only root,
# answers /healthz and a prompt, ends with 0 on SIGTERM, and has its data after a restart.
#
#   bash deploy/release/image.sh               # with the base images of the registry
#   bash deploy/release/image.sh --own-bases   # without a registry, as root on Debian
#
# With --own-bases, the two base images are made of Debian's packages and of this machine's
# Go, and the build uses this machine's Go cache. It needs podman, runc, curl, and
# mmdebstrap. Images are kept in a directory that is removed at the end.
set -euo pipefail
cd "$(dirname "$0")/../.."
own_bases=
if [[ ${1:-} == --own-bases ]]; then own_bases=1; fi

fail() {
	printf 'FAILED: %s\n' "$*" >&2
	if [[ -n ${running:-} ]]; then podman logs "$running" 2>&1 | tail -n 20 >&2; fi
	exit 1
}

for tool in podman curl ${own_bases:+mmdebstrap}; do
	command -v "$tool" >/dev/null || {
		[[ ${CI:-} != true ]] || fail "$tool is missing"
		echo "skipped: $tool is missing. Install it: apt-get install podman runc curl mmdebstrap"
		exit 0
	}
done

work=$(mktemp -d /var/tmp/lilac-image-XXXX)
running= volume=lilac-check-$$
cleanup() {
	status=$?
	if [[ -n $running ]]; then podman rm -f -v "$running" >/dev/null 2>&1 || true; fi
	podman volume rm -f "$volume" "${volume%-empty}" >/dev/null 2>&1 || true
	podman rmi -f "$image" >/dev/null 2>&1 || true
	if [[ -n $own_bases ]]; then umount "$work/storage/overlay" 2>/dev/null || true; fi
	rm -rf "$work"
	exit "$status"
}
trap cleanup EXIT
image=localhost/lilac-check

build=() start=(--ulimit host)
if [[ -n $own_bases ]]; then
	# Storage of our own: the names of the base images must not replace anybody's real ones.
	# runc also works where both versions of cgroups are mounted.
	options=(--root "$work/storage" --runroot "$work/run" --cgroup-manager cgroupfs --runtime runc)
	podman() { command podman "${options[@]}" "$@"; }
	limits=(--ulimit nofile=1024:1024 --ulimit nproc=1000:1000)
	start=("${limits[@]}" --no-healthcheck) # podman needs a running systemd for its timer
	build=(--pull=never --network host "${limits[@]}"
		-v "$(go env GOROOT):/usr/local/go:ro" -v "$(go env GOMODCACHE):/go/pkg/mod" -v "$(go env GOCACHE):/root/.cache/go-build")

	go mod download
	mmdebstrap --quiet --variant=minbase bookworm "$work/base.tar"
	podman import --quiet "$work/base.tar" docker.io/library/debian:bookworm-slim >/dev/null
	podman import --quiet --change ENV=PATH=/usr/local/go/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		--change ENV=GOPATH=/go --change ENV=GOTOOLCHAIN=local \
		"$work/base.tar" docker.io/library/golang:1.26-bookworm >/dev/null
	rm "$work/base.tar"
fi
printf '[%3ds] the base images are there\n' "$SECONDS"

podman build --format docker "${build[@]}" --build-arg VERSION=0.0.0-check -t "$image" -f deploy/Containerfile . >"$work/build.log" 2>&1 || {
	tail -n 30 "$work/build.log" >&2
	fail "the image cannot be built"
}
printf '[%3ds] the image is built: %s\n' "$SECONDS" "$(podman image inspect "$image" --format '{{.Architecture}}, {{.Size}} bytes')"

token=check-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
# up starts the image as its documentation says, on a free port.
up() {
	running=$(podman run -d "${start[@]}" --read-only --tmpfs /tmp -v "$volume:/var/lib/lilac" -p 127.0.0.1::7420 \
		-e LILAC_TOKEN="$token" "$@" "$image")
	address=$(podman port "$running" 7420/tcp)
	for ((i = 0; i < 300; i++)); do
		if [[ $(curl -s -o /dev/null -w '%{http_code}' "http://$address/healthz") == 200 ]]; then return; fi
		sleep 0.1
	done
	fail "/healthz does not answer 200 within 30 s"
}
# down stops it, and expects that it ends with 0.
down() {
	podman stop -t 15 "$running" >/dev/null
	code=$(podman inspect "$running" --format '{{.State.ExitCode}}')
	[[ $code == 0 ]] || fail "the image ended with $code after SIGTERM, want 0"
	podman rm "$running" >/dev/null
	running=
}

up
[[ $(podman exec "$running" id -u) == 65532 ]] || fail "the image does not run as user 65532"
! podman exec "$running" sh -c 'touch /here' 2>/dev/null || fail "the root is not read-only"
[[ $(podman exec "$running" lilac version) == 'lilac 0.0.0-check '* ]] || fail "lilac version does not say the build's version"
podman exec "$running" lilac health >/dev/null || fail "lilac health, the image's health check, fails"
[[ $(podman image inspect "$image" --format '{{.Config.Healthcheck.Test}}') == *health* ]] || fail "the image has no health check"
[[ $(podman exec "$running" lilac chat 'hello') == *'demo model'* ]] || fail "the demo model does not answer a prompt"
[[ $(curl -s -o /dev/null -w '%{http_code}' "http://$address/sessions") == 401 ]] || fail "the API answers without the token"
[[ $(curl -s -H "Authorization: Bearer $token" "http://$address/sessions") == *hello* ]] || fail "the conversation is not listed"
printf '[%3ds] it answers, as user 65532 on a read-only root\n' "$SECONDS"
down
printf '[%3ds] it ends with 0 on SIGTERM\n' "$SECONDS"
up
[[ $(curl -s -H "Authorization: Bearer $token" "http://$address/sessions") == *hello* ]] || fail "the conversation is gone after a restart"
down
printf '[%3ds] the volume has the conversation after a restart\n' "$SECONDS"

# Controls: the checks can fail.
! podman run --rm "${start[@]}" --read-only --tmpfs /tmp "$image" >/dev/null 2>&1 || fail "the image starts without a token"
volume=$volume-empty
up
[[ $(curl -s -H "Authorization: Bearer $token" "http://$address/sessions") != *hello* ]] || fail "an empty volume has the conversation"
down
echo "The image is good."

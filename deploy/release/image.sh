#!/bin/bash
# Builds the container image for amd64 and arm64 and checks each as a user would: it starts on
# a read-only root, answers /healthz and a prompt, ends with 0 on SIGTERM, and has its data
# after a restart.
#
#   bash deploy/release/image.sh               # with the base images of the registry
#   bash deploy/release/image.sh --own-bases   # without a registry, as root on Debian
#
# QEMU runs the image that is not for this machine's processor; Go compiles without it. Register
# QEMU with the packages qemu-user-static and binfmt-support; as root without systemd, this
# script registers it until its end.
#
# With --own-bases, the base images are made of Debian's packages and of this machine's Go. The
# packages for the other processor are only unpacked: in QEMU, apt-get takes minutes. The build
# uses this machine's Go cache. It needs podman, runc, curl, mmdebstrap, and arch-test. Images are
# kept in a directory that is removed at the end.
set -euo pipefail
cd "$(dirname "$0")/../.."
own_bases=
if [[ ${1:-} == --own-bases ]]; then own_bases=1; fi

fail() {
	printf 'FAILED: %s\n' "$*" >&2
	if [[ -n ${running:-} ]]; then podman logs "$running" 2>&1 | tail -n 20 >&2; fi
	exit 1
}

# skip says why a part is not checked. In CI, nothing is skipped.
skip() {
	[[ ${CI:-} != true ]] || fail "$1"
	echo "skipped: $1. Install what is needed: apt-get install podman runc curl mmdebstrap arch-test qemu-user-static"
}

for tool in podman curl ${own_bases:+mmdebstrap}; do
	command -v "$tool" >/dev/null || {
		skip "$tool is missing"
		exit 0
	}
done

work=$(mktemp -d /var/tmp/lilac-image-XXXX)
running= volumes=() registered= mounted=
formats=/proc/sys/fs/binfmt_misc
cleanup() {
	status=$?
	if [[ -n $running ]]; then podman rm -f -v "$running" >/dev/null 2>&1 || true; fi
	podman volume rm -f "${volumes[@]}" >/dev/null 2>&1 || true
	podman rmi -f "$image" "$image-amd64" "$image-arm64" >/dev/null 2>&1 || true
	if [[ -n $own_bases ]]; then umount "$work/storage/overlay" 2>/dev/null || true; fi
	if [[ -n $registered ]]; then echo -1 >"$registered" || true; fi
	if [[ -n $mounted ]]; then umount "$formats" || true; fi
	rm -rf "$work"
	exit "$status"
}
trap cleanup EXIT
image=localhost/lilac-check

own=$(go env GOHOSTARCH)
declare -A qemu=([amd64]=x86_64 [arm64]=aarch64)
[[ -n ${qemu[$own]:-} ]] || fail "this machine is $own; the images are for ${!qemu[*]}"

# emulates ARCH reports whether this machine runs programs for ARCH. As root, it registers QEMU
# with the kernel for the rest of the script.
emulates() {
	local entry=$formats/qemu-${qemu[$1]} rule=/usr/lib/binfmt.d/qemu-${qemu[$1]}.conf
	[[ $1 != "$own" ]] || return 0
	if [[ -e $entry ]]; then return 0; fi
	if ((EUID != 0)) || [[ ! -e $rule ]]; then return 1; fi
	if [[ ! -e $formats/register ]]; then
		mount -t binfmt_misc binfmt_misc "$formats" || return 1
		mounted=1
	fi
	if [[ -e $entry ]]; then return 0; fi
	cat "$rule" >"$formats/register" || return 1
	registered=$entry
}

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
fi

# Like the slim images of the registry, the bases have no documentation and no translations;
# besides, they have only the packages that apt-get needs.
slim=(--variant=apt --dpkgopt=path-exclude=/usr/share/{doc,man,locale}/\* --aptopt='Acquire::Languages "none"')
# The base for the other processor has the packages of the image already, and an apt-get that does
# nothing.
packages=$(sed -n 's/.*apt-get install .* --no-install-recommends \(.*\) \\$/\1/p' deploy/Containerfile)
[[ -n $packages ]] || fail "the packages of deploy/Containerfile cannot be read"
unpacked=(--variant=extract --include='?essential' --include="$packages"
	--extract-hook='printf "#!/bin/sh\n" >"$1/usr/bin/apt-get" && chmod 755 "$1/usr/bin/apt-get"')

# make_base ARCH makes the base images of an architecture. The one with Go runs on this machine;
# the podman of Debian 12 finds it only under the architecture that is built.
make_base() {
	local variant=("${unpacked[@]}")
	if [[ $1 == "$own" ]]; then variant=("${slim[@]}"); fi
	mmdebstrap --quiet "${variant[@]}" --architectures="$1" bookworm "$work/$1.tar"
	podman import --quiet --os linux --arch "$1" "$work/$1.tar" docker.io/library/debian:bookworm-slim >/dev/null
	podman import --quiet --os linux --arch "$1" --change ENV=PATH=/usr/local/go/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		--change ENV=GOPATH=/go --change ENV=GOTOOLCHAIN=local \
		"$work/$own.tar" docker.io/library/golang:1.26-bookworm >/dev/null
	printf '[%3ds] %s: the base image is there\n' "$SECONDS" "$1"
}

# build_image ARCH builds the image, and adds it to the manifest under which both are pushed.
build_image() {
	podman build --format docker --platform "linux/$1" "${build[@]}" --build-arg VERSION=0.0.0-check \
		-t "$image-$1" --manifest "$image" -f deploy/Containerfile . >"$work/build.log" 2>&1 || {
		tail -n 30 "$work/build.log" >&2
		fail "the image for $1 cannot be built"
	}
	local is
	is=$(podman image inspect "$image-$1" --format '{{.Architecture}}')
	[[ $is == "$1" ]] || fail "the image for $1 says that it is for $is"
	printf '[%3ds] %s: the image is built, %s bytes\n' "$SECONDS" "$1" "$(podman image inspect "$image-$1" --format '{{.Size}}')"
}

token=check-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
# up ARCH starts the image as its documentation says, on a free port.
up() {
	running=$(podman run -d --platform "linux/$1" "${start[@]}" --read-only --tmpfs /tmp -v "$volume:/var/lib/lilac" -p 127.0.0.1::7420 \
		-e LILAC_TOKEN="$token" "$image-$1")
	address=$(podman port "$running" 7420/tcp)
	for ((i = 0; i < 600; i++)); do
		if [[ $(curl -s -o /dev/null -w '%{http_code}' "http://$address/healthz") == 200 ]]; then return; fi
		sleep 0.1
	done
	fail "$1: /healthz does not answer 200 within a minute"
}
# down stops it, and expects that it ends with 0.
down() {
	podman stop -t 30 "$running" >/dev/null
	code=$(podman inspect "$running" --format '{{.State.ExitCode}}')
	[[ $code == 0 ]] || fail "the image ended with $code after SIGTERM, want 0"
	podman rm "$running" >/dev/null
	running=
}
conversations() { curl -s -H "Authorization: Bearer $token" "http://$address/sessions"; }

# check_image ARCH uses the image as a user would.
check_image() {
	local arch=$1
	volume=lilac-check-$$-$arch
	volumes+=("$volume" "$volume-empty")
	up "$arch"
	[[ $(podman exec "$running" id -u) == 65532 ]] || fail "$arch: the image does not run as user 65532"
	! podman exec "$running" sh -c 'touch /here' 2>/dev/null || fail "$arch: the root is not read-only"
	[[ $(podman exec "$running" lilac version) == "lilac 0.0.0-check "*"linux/$arch"* ]] || fail "$arch: lilac version does not say the build's version and architecture"
	podman exec "$running" lilac health >/dev/null || fail "$arch: lilac health, the image's health check, fails"
	[[ $(podman image inspect "$image-$arch" --format '{{.Config.Healthcheck.Test}}') == *health* ]] || fail "$arch: the image has no health check"
	[[ $(podman exec "$running" lilac chat 'hello') == *'demo model'* ]] || fail "$arch: the demo model does not answer a prompt"
	[[ $(curl -s -o /dev/null -w '%{http_code}' "http://$address/sessions") == 401 ]] || fail "$arch: the API answers without the token"
	[[ $(conversations) == *hello* ]] || fail "$arch: the conversation is not listed"
	printf '[%3ds] %s: it answers, as user 65532 on a read-only root\n' "$SECONDS" "$arch"
	down
	up "$arch"
	[[ $(conversations) == *hello* ]] || fail "$arch: the conversation is gone after a restart"
	down
	printf '[%3ds] %s: it ends with 0 on SIGTERM, and the volume has the conversation after a restart\n' "$SECONDS" "$arch"

	# Controls: the checks can fail.
	! podman run --rm --platform "linux/$arch" "${start[@]}" --read-only --tmpfs /tmp "$image-$arch" >/dev/null 2>&1 || fail "$arch: the image starts without a token"
	volume=$volume-empty
	up "$arch"
	[[ $(conversations) != *hello* ]] || fail "$arch: an empty volume has the conversation"
	down
}

built=0
for arch in "$own" $([[ $own == amd64 ]] && echo arm64 || echo amd64); do
	emulates "$arch" || {
		skip "this machine cannot run programs for $arch"
		continue
	}
	if [[ -n $own_bases ]]; then make_base "$arch"; fi
	build_image "$arch"
	check_image "$arch"
	built=$((built + 1))
done
listed=$(podman manifest inspect "$image" | grep -c '"architecture"')
((listed == built)) || fail "the manifest has $listed images, want $built"
echo "The images are good: $built in one manifest."

#!/bin/bash
# Generates the files of a release that are not in the repository, into build/: shell
# completion, manual pages, and the systemd unit for packages.
set -euo pipefail
cd "$(dirname "$0")/../.."
rm -rf build
mkdir -p build/completions build/man
go build -o build/lilac ./cmd/lilac
build/lilac completion bash >build/completions/lilac.bash
build/lilac completion zsh >build/completions/_lilac
build/lilac completion fish >build/completions/lilac.fish
go run ./deploy/release/manpages build/man
rm build/lilac
# Packages install into /usr, not /usr/local, and come with the files in /etc/lilac.
sed -e '/^# The systemd unit/,/^# For details/{/^# For details/!d}' -e 's|/usr/local/bin/|/usr/bin/|; s|/usr/local/share/|/usr/share/|' \
	deploy/lilac.service >build/lilac.service

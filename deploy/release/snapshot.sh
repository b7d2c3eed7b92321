#!/bin/bash
# Builds everything that users install into dist/, without publishing anything, and checks
# it: the archives, packages, checksums, bills of materials, and the Homebrew formula.
#
#   bash deploy/release/snapshot.sh
#
# It builds goreleaser and cyclonedx-gomod as tools/release/go.mod pins them. That takes
# minutes at the first time, and seconds later.
set -euo pipefail
cd "$(dirname "$0")/../.."
export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -trimpath"
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT

# To optimize these programs would take longer than they run.
(cd tools/release && go build -gcflags 'all=-N -l' -gcflags 'std=' -ldflags "-s -w" -o "$tools/" tool)
PATH=$tools:$PATH goreleaser release --snapshot --clean
go run ./deploy/release/artifacts dist

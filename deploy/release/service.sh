#!/bin/bash
# Installs a Debian package in a Debian that systemd boots, and uses the service as an operator
# would: set up before the first start, start, chat, a command of the agent, kill -9, a mistake in
# the configuration, restart, stop, and removal.
#
#   bash deploy/release/service.sh dist/lilac_*_linux_amd64.deb
#
# It needs root, mmdebstrap, and systemd-container. The machine has no network but loopback, and
# ends by itself.
set -euo pipefail

fail() {
	printf 'FAILED: %s\n' "$*" >&2
	exit 1
}

(($# == 1)) && [[ -f $1 ]] || fail "name the Debian package"
for tool in mmdebstrap systemd-nspawn; do
	command -v "$tool" >/dev/null || fail "$tool is missing: apt-get install mmdebstrap systemd-container"
done

work=$(mktemp -d /var/tmp/lilac-service-XXXX)
trap 'rm -rf "$work"' EXIT
root=$work/root
mmdebstrap --quiet --variant=minbase --include=systemd,dbus,bubblewrap,curl bookworm "$root"
cp "$1" "$root/lilac.deb"

# The check runs in the machine as a unit of its own, whose end powers the machine off.
cat >"$root/etc/systemd/system/check.service" <<'EOF'
[Unit]
Description=The check of the service
After=multi-user.target
SuccessAction=exit-force
FailureAction=exit-force
FailureActionExitStatus=1

[Service]
Type=oneshot
ExecStart=/bin/bash /check
StandardOutput=file:/check.log
StandardError=file:/check.log
TimeoutStartSec=600
EOF
mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
ln -s ../check.service "$root/etc/systemd/system/multi-user.target.wants/check.service"

cat >"$root/check" <<'EOF'
set -euo pipefail
export HOME=/root LC_ALL=C.UTF-8
cd /root

now=
trap 'status=$?; ((status == 0)) || { echo "FAILED: $now"; journalctl -u lilac -o cat --no-pager | tail -n 30; }' EXIT
step() { now=$*; echo "- $*"; }

# says TEXT COMMAND ... fails if a command ends with an error or does not print a text.
says() {
	local text=$1 out
	shift
	out=$("$@" 2>&1) || { echo "$out"; echo "\"$*\" failed"; return 1; }
	[[ $out == *"$text"* ]] || { echo "$out"; echo "\"$*\" does not print \"$text\""; return 1; }
}

# refuses TEXT COMMAND ... fails if a command succeeds or does not print a text.
refuses() {
	local text=$1 out
	shift
	if out=$("$@" 2>&1); then echo "$out"; echo "\"$*\" succeeded"; return 1; fi
	[[ $out == *"$text"* ]] || { echo "$out"; echo "\"$*\" does not print \"$text\""; return 1; }
}

ask() { echo "$1" | lilac chat; }

step "install"
dpkg --install /lilac.deb
! systemctl is-active --quiet lilac

step "set up before the first start"
lilac setup --rule weekdays --time 08:30 --conversation Team
grep -q weekdays /etc/lilac/config.yaml

step "start"
systemctl enable --now lilac
says "ready" curl -sf http://127.0.0.1:7420/readyz
says "http://127.0.0.1:7420/login?code=" lilac login
says "every-weekday" lilac rules list

step "whoever is not root"
refuses "sudo" env HOME=/tmp setpriv --reuid 65534 --regid 65534 --clear-groups lilac doctor

step "chat, with a command in the sandbox"
says "made by the sandbox" ask 'run `echo made by the sandbox`'
[[ -z $(find /var/lib/private/lilac -user root) ]]

step "kill -9"
first=$(systemctl show -p MainPID --value lilac)
systemctl kill --kill-who=main --signal=KILL lilac
for _ in $(seq 100); do
	second=$(systemctl show -p MainPID --value lilac)
	if ((second != 0 && second != first)) && curl -sf http://127.0.0.1:7420/readyz >/dev/null; then break; fi
	sleep 0.1
done
((second != first))
says "made by the sandbox" lilac sessions list

step "a mistake in the configuration"
cp -p /etc/lilac/config.yaml /root/config.yaml
echo 'model: [demo' >>/etc/lilac/config.yaml
systemctl reload lilac
says "still" ask "still there?"
refuses "config.yaml" lilac doctor
cp -p /root/config.yaml /etc/lilac/config.yaml
systemctl reload lilac

step "doctor, setup while it runs, and restart"
lilac doctor
mkdir /srv/inbox
lilac setup --rule file --directory /srv/inbox --conversation Team
systemctl restart lilac
says "file.changed" lilac rules list
[[ -z $(find /var/lib/private/lilac -user root) ]]

step "stop"
systemctl stop lilac
[[ $(systemctl show -p Result --value lilac) == success ]]
refuses "lilac" lilac sessions list

step "remove"
dpkg --remove lilac
[[ -d /var/lib/private/lilac/data ]]
echo "The service works."
EOF

timeout --kill-after=10 900 systemd-nspawn --quiet --register=no --keep-unit --private-network --directory "$root" --boot \
	systemd.unit=multi-user.target systemd.mask=getty.target systemd.mask=console-getty.service >"$work/boot.log" 2>&1 </dev/null || {
	tail -n 40 "$work/boot.log" "$root/check.log" >&2 || true
	fail "the check of the service, or the machine's start"
}
grep -E '^(- |The service works)' "$root/check.log"

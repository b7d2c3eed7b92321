package sandbox_test

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// The systemd unit filters system calls. Both sandboxes must work under the filter of the
// oldest supported systemd, whose groups contain the fewest calls. The control is the same
// unit without the individual calls that it lists.
func TestTheUnitLeavesTheSandboxItsSystemCalls(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the numbers of the system calls are those of amd64")
	}
	unit := textOf(t, "../../../deploy/lilac.service")
	var groups, names []string
	for _, line := range strings.Split(unit, "\n") {
		if words, ok := strings.CutPrefix(line, "SystemCallFilter="); ok {
			for _, word := range strings.Fields(words) {
				if strings.HasPrefix(word, "@") {
					groups = append(groups, word)
				} else {
					names = append(names, word)
				}
			}
		}
	}
	if len(groups) == 0 || len(names) == 0 {
		t.Fatalf("the unit lets through the groups %v and the calls %v", groups, names)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name := range offered(t) {
		for _, way := range []struct{ numbers, want string }{
			{numbers(t, groups, names), "opened: " + name},
			{numbers(t, []string{"@system-service"}, nil), "refused"},
		} {
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), openEnv+"="+name, filterEnv+"="+way.numbers)
			if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), way.want) {
				t.Errorf("%s: %v, %s; want %s", name, err, out, way.want)
			}
		}
	}
}

// numbers returns the numbers of the system calls in systemd's groups and of the named calls.
func numbers(t *testing.T, groups, names []string) string {
	t.Helper()
	missing := map[string]bool{}
	for _, word := range append(append([]string(nil), groups...), names...) {
		missing[word] = true
	}
	var out []string
	for _, line := range strings.Split(textOf(t, "testdata/systemd-252-amd64.txt"), "\n") {
		words := strings.Fields(line)
		if len(words) != 3 || words[0] == "#" {
			continue
		}
		for _, word := range append(append([]string(nil), groups...), names...) {
			if word == words[0] || word == words[1] {
				delete(missing, word)
				out = append(out, words[2])
				break
			}
		}
	}
	if len(missing) > 0 {
		t.Fatalf("testdata knows no numbers for %v", missing)
	}
	return strings.Join(out, " ")
}

func textOf(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The unit must keep the documented restrictions, and must not restrict what the sandbox
// needs.
func TestTheUnitSaysWhatItHasTo(t *testing.T) {
	said := map[string]string{}
	for _, line := range strings.Split(textOf(t, "../../../deploy/lilac.service"), "\n") {
		if key, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			said[key] = value
		}
	}
	for key, want := range map[string]string{
		"Type": "notify", "WatchdogSec": "60s", "TimeoutStopSec": "15s", "Restart": "on-failure", "DynamicUser": "yes", "StateDirectoryMode": "0700", "UMask": "0077",
		"NoNewPrivileges": "yes", "CapabilityBoundingSet": "", "AmbientCapabilities": "", "ProtectSystem": "strict", "ProtectHome": "yes", "PrivateTmp": "yes",
		"PrivateDevices": "yes", "ProtectClock": "yes", "ProtectKernelModules": "yes", "ProtectControlGroups": "yes",
		"RestrictRealtime": "yes", "RestrictSUIDSGID": "yes", "LockPersonality": "yes", "SystemCallArchitectures": "native", "SystemCallErrorNumber": "EPERM",
		// Every system has a shell, but /bin/kill needs procps.
		"ExecReload": `/bin/sh -c 'kill -HUP "$MAINPID"'`,
		// If a command uses too much memory, only the command is killed.
		"MemoryMax": "75%", "OOMPolicy": "continue",
		// A new /proc can be mounted only if no part of the existing one is covered.
		"ProtectKernelTunables": "no", "ProtectProc": "default", "ProtectHostname": "no", "ProtectKernelLogs": "no",
	} {
		if got, ok := said[key]; !ok || got != want {
			t.Errorf("the unit says %s=%s (%v), want %q", key, got, ok, want)
		}
	}
	if high, ok := said["MemoryHigh"]; ok {
		t.Errorf("under MemoryHigh=%s the service stands still with its command", high)
	}
	for key, words := range map[string]string{"RestrictNamespaces": "user mnt pid net ipc uts", "RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6 AF_NETLINK"} {
		for _, word := range strings.Fields(words) {
			if !slices.Contains(strings.Fields(said[key]), word) {
				t.Errorf("the unit's %s does not have %s, which a sandbox needs", key, word)
			}
		}
	}
}

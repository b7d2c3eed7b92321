package app

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestConstantsAreTheReadOnlyPartsOfTheProgramsFile(t *testing.T) {
	const program = "/opt/a program (deleted)"
	for line, want := range map[string]bool{
		"01574000-02823000 r--p 01174000 fe:00 1312                              /opt/a program (deleted)\n": true,
		"00400000-01574000 r-xp 00000000 fe:00 1312                              /opt/a program (deleted)\n": false,
		"02823000-029f2000 rw-p 02423000 fe:00 1312                              /opt/a program (deleted)\n": false,
		"01574000-02823000 r--p 01174000 fe:00 1312                              /opt/another program\n":     false,
		"7f0000000000-7f0000021000 r--p 00000000 00:00 0 \n":                                                 false,
		"02823000-01574000 r--p 01174000 fe:00 1312 /opt/a program (deleted)\n":                              false,
		"x-y r--p 01174000 fe:00 1312 /opt/a program (deleted)\n":                                            false,
		"\n": false,
	} {
		start, length, ok := constantsIn(line, program)
		if ok != want || ok && (start != 0x1574000 || length != 0x12af000) {
			t.Errorf("%q: %#x, %#x, %v, want %v", line, start, length, ok, want)
		}
	}
}

func TestConstantsAreReleased(t *testing.T) {
	before := mappedConstants(t)
	if err := releaseConstants(); err != nil {
		t.Fatal(err)
	}
	after := mappedConstants(t)
	t.Logf("%d KiB before, %d KiB after", before, after)
	if after > before/2 {
		t.Errorf("%d KiB of the program's constants are mapped, %d before", after, before)
	}
}

// mappedConstants returns how much of the program's constants this process has mapped, in KiB.
func mappedConstants(t *testing.T) (kib int) {
	t.Helper()
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	mappings, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	inside := false
	for line := range strings.Lines(string(mappings)) {
		switch fields := strings.Fields(line); {
		case !strings.HasSuffix(fields[0], ":"):
			_, _, inside = constantsIn(line, program)
		case inside && fields[0] == "Rss:":
			n, err := strconv.Atoi(fields[1])
			if err != nil {
				t.Fatal(err)
			}
			kib += n
		}
	}
	return kib
}

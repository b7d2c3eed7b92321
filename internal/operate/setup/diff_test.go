package setup

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDiff(t *testing.T) {
	var long strings.Builder
	for i := range 20 {
		fmt.Fprintf(&long, "%d\n", i)
	}
	for name, c := range map[string]struct{ before, after, want string }{
		"equal":           {"a\nb\n", "a\nb\n", ""},
		"a new file":      {"", "a\nb\n", "+a|+b"},
		"a changed line":  {"a\nb\nc\n", "a\nB\nc\n", " a|-b|+B| c"},
		"a moved line":    {"a\nb\nc\n", "b\nc\na\n", "-a| b| c|+a"},
		"far from others": {long.String(), strings.Replace(long.String(), "10\n", "ten\n", 1), "@| 7| 8| 9|-10|+ten| 11| 12| 13|@"},
		"two places":      {long.String(), "x\n" + long.String() + "y\n", "+x| 0| 1| 2|@| 17| 18| 19|+y"},
	} {
		var got []string
		for _, line := range Diff(c.before, c.after) {
			got = append(got, line.Op+line.Text)
		}
		if diff := cmp.Diff(c.want, strings.Join(got, "|")); diff != "" {
			t.Errorf("%s: want -, got +:\n%s", name, diff)
		}
	}
}

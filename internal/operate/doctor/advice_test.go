package doctor

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"lilac/internal/foundation/fault"
)

// Each kind of failure gets matching advice; for example, a full disk must not lead to advice to
// restore a backup.
func TestTheAdviceFitsWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"a full disk":           {fault.Wrap(fault.Unavailable, syscall.ENOSPC, "The disk is full: free some space."), "when there is room"},
		"another one has it":    {fault.New(fault.Conflict, "It is in use."), "stop that one"},
		"another user's":        {fault.New(fault.Denied, "No."), asItsUser},
		"a read-only disk":      {fault.Wrap(fault.Unavailable, syscall.EROFS, "It cannot be opened."), "how it is mounted"},
		"a damaged one":         {&fault.Error{Kind: fault.Conflict, Code: "damaged_database"}, "restore a backup"},
		"a newer program's":     {&fault.Error{Kind: fault.Conflict, Code: "newer_database"}, "newer program"},
		"another program's":     {&fault.Error{Kind: fault.Conflict, Code: "foreign_database"}, "another --data"},
		"a locked one":          {&fault.Error{Kind: fault.Unavailable, Code: "database_locked"}, "Nothing is damaged"},
		"control: what else is": {errors.New("disk I/O error"), "Keep a copy"},
	} {
		if got := adviceFor(c.err); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q in it", name, got, c.want)
		}
	}
}

// An error without a message for people says its own text, because doctor has no log to refer to.
func TestTheFindingSaysWhatIsWrong(t *testing.T) {
	for want, err := range map[string]error{
		"open skills.json: permission denied": errors.New("open skills.json: permission denied"),
		"The disk is full: free some space.":  fault.Wrap(fault.Unavailable, syscall.ENOSPC, "The disk is full: free some space."),
	} {
		if got := says(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

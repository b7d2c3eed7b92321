package callables_test

import (
	"encoding/json"
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/serve/callables"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// The help that the agent reads shows these schemas, and scripts rely on them. A
// change in testdata must be on purpose.
func TestSchemasShownInHelpAreUnchanged(t *testing.T) {
	schemas := map[string]any{}
	for _, c := range slices.Concat(callables.Surface(nil), callables.Events(nil, nil), callables.Workflow(nil, nil, nil), callables.Background(nil), callables.Attachments(nil)) {
		var schema any
		raw, err := c.Schema()
		if err == nil {
			err = json.Unmarshal(raw, &schema)
		}
		if err != nil {
			t.Fatalf("schema of %s: %v", c.ID, err)
		}
		schemas[c.ID] = schema
	}
	got, err := json.MarshalIndent(schemas, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	const golden = "testdata/schemas.json"
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("the schemas differ from %s (-want +got); if that is on purpose, run with -update:\n%s", golden, diff)
	}
}

package builtin_test

import (
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/agent/builtin"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// The tool list is part of every conversation that providers cache, and models
// learn from it which inputs are valid. A change in testdata must be on purpose.
func TestSchemasShownToTheModelAreUnchanged(t *testing.T) {
	attachments, err := builtin.NewAttachments(builtin.AttachOptions{Workspace: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	tools, err := builtin.New(builtin.Options{Workspace: t.TempDir(), Attachments: attachments})
	if err != nil {
		t.Fatal(err)
	}
	schemas := map[string]any{}
	for _, one := range tools {
		var schema any
		if err := json.Unmarshal(one.Spec().Schema, &schema); err != nil {
			t.Fatalf("schema of %s: %v", one.Spec().Name, err)
		}
		schemas[one.Spec().Name] = schema
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

package chat

import (
	"encoding/json"
	"reflect"
	"testing"
)

// FuzzDecodeObject checks that the fields of an object are those that encoding/json finds.
func FuzzDecodeObject(f *testing.F) {
	for _, seed := range []string{
		`{}`, ` { } `, `null`, `[]`, `"a"`, `{"a":1,"b":"x","c":[1,{"d":"}"}],"e":{"f":[]}}`, `{"a":"\"","b":"\\"}`, "{ \"a\" :\t1 ,\n\"a\": true }",
		`{"\u0061":"é\ud800"}`, "{\"a\":\"\xff\",\"\xff\":-1.5e3}", `{"a":1`, `{"a":1}}`, "\u00a0{}", `{"":""}`, `{"a":"[{,:"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want map[string]json.RawMessage
		wantErr := json.Unmarshal(data, &want)
		got, err := decodeObject(data)
		if want == nil && err == nil || wantErr != nil && err == nil || wantErr == nil && want != nil && err != nil {
			t.Fatalf("decodeObject(%q): error %v, want one as json.Unmarshal: %v", data, err, wantErr)
		}
		if err == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("decodeObject(%q) = %q, want %q", data, got, want)
		}
		for name, raw := range got {
			var text string
			wantErr := json.Unmarshal(raw, &text)
			if s, err := decodeText(raw); (err != nil) != (wantErr != nil) || s != text {
				t.Fatalf("field %s: decodeText(%q) = %q, %v, want %q, %v", name, raw, s, err, text, wantErr)
			}
		}
	})
}

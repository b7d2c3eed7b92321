package webui

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestModulesAreJoined(t *testing.T) {
	t.Parallel()
	const state = "export const most = 3;\nexport class State {}\n"
	for name, c := range map[string]struct {
		modules   map[string]string
		want, err string
	}{
		"functions, constants, and classes are exported": {
			modules: map[string]string{"app": "export function a() {}\nexport async function b() {}\nexport function* c() {}\n" + state},
			want: "// app.js\nconst $app = (() => {\n" +
				"function a() {}\nasync function b() {}\nfunction* c() {}\nconst most = 3;\nclass State {}\n" +
				"\nreturn { a, b, c, most, State, };\n})();\n",
		},
		"what is imported comes before, and once": {
			modules: map[string]string{
				"app":   "import { most, State as Kept } from './state.js';\nimport * as view from './view.js';\nview.draw(most, Kept);\n",
				"view":  "import {\n  most,\n} from './state.js';\nexport { State } from './state.js';\nexport function draw() {}\n",
				"state": state,
				"other": "nobody();\n",
			},
			want: "// state.js\nconst $state = (() => {\nconst most = 3;\nclass State {}\n\nreturn { most, State, };\n})();\n" +
				"// view.js\nconst $view = (() => {\nconst {\n  most,\n} = $state;\nfunction draw() {}\n\nreturn { State: $state.State, draw, };\n})();\n" +
				"// app.js\nconst $app = (() => {\nconst { most, State: Kept } = $state;\nconst view = $view;\nview.draw(most, Kept);\n\nreturn { };\n})();\n",
		},
		"a module that is missing":      {modules: map[string]string{"app": "import { a } from './none.js';\n"}, err: "there is no module none.js"},
		"a circle":                      {modules: map[string]string{"app": "import { a } from './b.js';\n", "b": "import { a } from './app.js';\n"}, err: "app.js imports itself by way of others"},
		"an export that can change":     {modules: map[string]string{"app": "export let a = 1;\n"}, err: "app.js has an unknown form: export let a = 1;"},
		"an export without a name":      {modules: map[string]string{"app": "export default 1;\n"}, err: "app.js has an unknown form: export default 1;"},
		"an export of a whole module":   {modules: map[string]string{"app": "export * as b from './b.js';\n", "b": ""}, err: "app.js has an unknown form: export * as b from './b.js';"},
		"an export with another name":   {modules: map[string]string{"app": "export { a as c } from './b.js';\n", "b": ""}, err: "app.js has an unknown form: export { a as c } from './b.js';"},
		"an import for its effect only": {modules: map[string]string{"app": "import './b.js';\n"}, err: "app.js has an unknown form: import './b.js';"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			modules := map[string][]byte{}
			for name, body := range c.modules {
				modules[name+".js"] = []byte(body)
			}
			got, err := join(modules, "app")
			if c.err != "" {
				if err == nil || !strings.HasSuffix(err.Error(), c.err) {
					t.Fatalf("joined with the error %v, want %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(got)); diff != "" {
				t.Errorf("the script (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzModulesAreJoined(f *testing.F) {
	f.Add("import { a, b as c } from './b.js';\nexport const d = a;\n", "export { x } from './app.js';\n")
	f.Fuzz(func(t *testing.T, app, b string) {
		script, err := join(map[string][]byte{"app.js": []byte(app), "b.js": []byte(b)}, "app")
		if (script == nil) == (err == nil) {
			t.Errorf("a script of %d bytes, and the error %v", len(script), err)
		}
	})
}

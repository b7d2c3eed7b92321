package environment_test

import (
	"strings"
	"testing"

	"lilac/internal/core/environment"
	"lilac/internal/foundation/fault"
)

// A condition that an agent writes looks at the event and compares. It makes
// nothing, so it takes no more memory and time than the event has.
func TestAPlainConditionOnlyLooks(t *testing.T) {
	e := observed("e", "s", `{"ok":true,"branch":"release/7","labels":[{"name":"bug"},{"name":"ui"}],"tags":["a","b"],"n":-3}`)
	spec := func(condition string) environment.Spec {
		return environment.Spec{Name: "w", Types: []string{"*"}, If: condition, Restricted: true, Enabled: true, Drop: true}
	}
	for condition, want := range map[string]bool{
		`.payload.ok`: true, `.payload.ok == true and .type != "x"`: true, `.payload["n"] < -2`: true, `.payload.none // "x" | . == "x"`: true,
		`.payload.branch | test("^release/\\d{1,4}$"; "i")`: true, `any(.payload.labels[]; .name == "bug")`: true, `any(.payload.labels[].name; IN("x", "ui"))`: true,
		`.payload.tags | contains(["a"])`: true, `.payload.tags[1:] | length == 1`: true, `.. | select(. == "nowhere")`: false, `.payload.x?.y | not`: true,
		`(.payload | tostring | ascii_upcase | startswith("{")) and (.payload.tags | index("b") == 1)`: true, `.payload.branch | inside("release/70")`: true,
		`any(..; . == "bug") and (any(..; . == "no") | not)`: true, `any(.payload.labels[]; any(.[]; IN("a", "b", "c", "ui")))`: true, `.payload.tags[] == "a" or .payload.none`: true,
	} {
		r, err := environment.Compile(spec(condition))
		if err != nil {
			t.Errorf("%s is refused: %v", condition, err)
			continue
		}
		if got, err := r.If(t.Context(), environment.NewSubject(e)); err != nil || got != want {
			t.Errorf("%s is %v, %v", condition, got, err)
		}
	}
	for _, condition := range []string{
		`[] | .[536870910] = 1`, `"a" * 500000000`, `. + .`, `-.payload.n + 1 | . > 0`, `[.,.] | [.,.] | tojson`, `[.payload, .payload]`, `{a: .}`, `"\(.)\(.)"`, `@json`,
		`@base64 "\(.)"`, `reduce range(9) as $i (.; .)`, `foreach .[] as $i (.; .)`, `def f: f; f`, `label $l | .`, `. as $x | $x`, `range(1000000000)`, `repeat(.)`, `input`, `tojson`,
		`.payload.ok |= false`, `try error catch .`, `if . then . else . end`, `env.HOME`, `.["\(.)"]`, `."a\(.)"`, `.[[.,.]]`, `.payload[:(. + .)]`, `any(. * 9)`,
		`.payload.a | contains(.payload.b)`, `test(.payload.re)`, `test(["a", "g"])`, `test("(a{1,500}){1,2}")`, `test("(")`, `contains(["a"] + ["b"])`, `first`, `select(.; .)`,
		`any(..; any(..; any(..; false)))`, `.. | ..`, `any(.. == ..; .)`, `.. | select(any(..; . == 1))`, `any(..; tostring == "1")`, strings.Repeat("(.,.)|", 20) + ".",
		"any(.[]; " + strings.Repeat("any(.[]; ", 6) + "." + strings.Repeat(")", 7),
	} {
		if _, err := environment.Compile(spec(condition)); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v, want an error of the kind invalid", condition, err)
		}
	}
}

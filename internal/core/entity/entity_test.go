package entity_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"lilac/internal/core/entity"
	"lilac/internal/foundation/fault"
)

func mapper() *entity.Mapper {
	people := map[string]string{"1": "Stanley", "2": "Ann Lee", "3": "twin", "4": "Twin", "5": "b`tick", "6": "Everyone", "7": "Ann Lee is", "9": "dot."}
	channels := map[string]string{"10": "general", "11": "release-room", "30": "dup", "31": "Dup"}
	named := func(m map[string]string) func(string) []string {
		return func(name string) (ids []string) {
			for id, n := range m {
				if strings.EqualFold(n, name) {
					ids = append(ids, id)
				}
			}
			return ids
		}
	}
	of := func(m map[string]string) func(string) (string, bool) {
		return func(id string) (string, bool) { n, ok := m[id]; return n, ok }
	}
	return entity.New(
		map[string]string{"stan": "1", "Boss": "8"},
		map[string]string{"ops": "12", "#Launch-Pad": "13"},
		entity.Known{
			User: of(people), Users: named(people), Channel: of(channels), Channels: named(channels),
			Role:  of(map[string]string{"20": "Moderators"}),
			Where: func(id string) string { return map[string]string{"30": "a thread of #release-room"}[id] },
		})
}

func TestMentionsBecomeNames(t *testing.T) {
	m := mapper()
	for in, want := range map[string]string{
		"hi <@1> and <@!2>!":             "hi @stan and @Ann Lee!",
		"<@8>, see <#12>":                "@Boss, see #ops",
		"<#11> or <#13>":                 "#release-room or #Launch-Pad",
		"<@3> and <@4>":                  "@twin-3 and @Twin-4",
		"<@5>":                           "@b_tick-5",
		"<@6>":                           "@Everyone-6",
		"<@999> in <#998>":               "@user-999 in #channel-998",
		"<@&20>":                         "@Moderators-20",
		"<t:1618953630:R>, <t:0>":        "2021-04-20 21:20 UTC, 1970-01-01 00:00 UTC",
		"`<t:5>` and <@1>":               "`<t:5>` and @stan",
		"<@1:R> and <@1>":                "<@1:R> and @stan",
		"`<@1>` <@1>":                    "`<@1>` @stan",
		"```\n<@1>\n```\n<@1>":           "```\n<@1>\n```\n@stan",
		"~~~\n<@1>":                      "~~~\n<@1>",
		"mail a<@1>":                     "mail a<@1>",
		"<@2> is here":                   "@Ann_Lee-2 is here",
		"``a ` <@1> `` <@1>":             "``a ` <@1> `` @stan",
		"an ` unclosed <@1>":             "an ` unclosed @stan",
		"`over\n\nlines <@1>`":           "`over\n\nlines @stan`",
		"   ```go\n<@1>\n   ```  \n<@1>": "   ```go\n<@1>\n   ```  \n@stan",
	} {
		if got := m.In(in); got != want {
			t.Errorf("In(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestNamesBecomeMentions(t *testing.T) {
	m := mapper()
	for in, want := range map[string]struct {
		text  string
		users []string
	}{
		"@STAN look at #OPS":          {"<@1> look at <#12>", []string{"1"}},
		"@stanley":                    {"<@1>", []string{"1"}},
		"ask @ann lee, now":           {"ask <@2>, now", []string{"2"}},
		"@twin":                       {"@twin", nil},
		"@nobody #nowhere":            {"@nobody #nowhere", nil},
		"#release-room.":              {"<#11>.", nil},
		"#launch-pad-":                {"<#13>-", nil},
		"@stan.":                      {"<@1>.", []string{"1"}},
		"@everyone @here @Everyone-6": {"@everyone @here <@6>", []string{"6"}},
		"me@stan and a#ops":           {"me@stan and a#ops", nil},
		"https://x.org/@stan /#ops":   {"https://x.org/@stan /#ops", nil},
		"`@stan` @stan @Stan":         {"`@stan` <@1> <@1>", []string{"1"}},
		"@user-999":                   {"<@999>", []string{"999"}},
		"@stan-999":                   {"@stan-999", nil},
		"@Twin-4 @twin-3":             {"<@4> <@3>", []string{"4", "3"}},
		"# ops":                       {"# ops", nil},
		"\\@stan":                     {"\\@stan", nil},
	} {
		text, users := m.Out(in)
		if text != want.text || !slices.Equal(users, want.users) {
			t.Errorf("Out(%q) = %q %q, want %q %q", in, text, users, want.text, want.users)
		}
	}
}

func TestSessionsAreFoundInEveryForm(t *testing.T) {
	m := mapper()
	for form, want := range map[string]string{
		"1234567890": "1234567890", "<#1234567890>": "1234567890", "ops": "12", "#ops": "12", "#OPS ": "12", "launch-pad": "13",
	} {
		if got, err := m.SessionID(form); err != nil || got != want {
			t.Errorf("SessionID(%q) = %q, %v, want %q", form, got, err, want)
		}
	}
	// What is not configured is found by its title, with the # only.
	if got, err := m.SessionID("#Release-Room"); err != nil || got != "11" {
		t.Errorf("by its title: %q, %v", got, err)
	}
	for _, form := range []string{"#dup", "#DUP"} {
		_, err := m.SessionID(form)
		if fault.KindOf(err) != fault.Conflict || !strings.Contains(err.Error(), "30 (a thread of #release-room)") || !strings.Contains(err.Error(), "31") {
			t.Errorf("SessionID(%q): %v, want an error that names both", form, err)
		}
	}
	for form, hint := range map[string]string{"#opps": "#ops", "release-room": "entity.sessions", "#nowhere": "entity.sessions", "general": "entity.sessions", "": "entity.sessions", "<#>": "entity.sessions"} {
		_, err := m.SessionID(form)
		if fault.KindOf(err) != fault.NotFound || !strings.Contains(err.Error(), hint) {
			t.Errorf("SessionID(%q): %v, want one that says %q", form, err, hint)
		}
	}
	if token, ok := m.Token("13"); !ok || token != "Launch-Pad" {
		t.Errorf("Token(13) = %q, %v", token, ok)
	}
}

// Whatever was mentioned is mentioned again after a way in and out, code is
// not touched, and nobody is notified by a text that mentioned nobody.
func FuzzInThenOutGivesEveryMentionBack(f *testing.F) {
	for _, s := range []string{"<@1> `<@2>` <#12>", "```\n<@1>\n``` <@3>", "<@2> is", "<@999>-<#10>", "@stan<@1>", "<@1>\n~~~\n<@2>\n~~~\n", "<@!2> <@&20>", "@stan@stan", "<@1><@2>#ops<#12>"} {
		f.Add(s)
	}
	m := mapper()
	f.Fuzz(func(t *testing.T, text string) {
		in := m.In(text)
		got, _ := m.Out(in)
		want, _ := m.Out(strings.NewReplacer("<@!", "<@").Replace(text))
		if strings.Contains(text, "<@&") || strings.Contains(text, "<@!") {
			return // roles become words, the older form the newer one
		}
		if got != want {
			t.Errorf("in and out of %q: %q, want %q (in: %q)", text, got, want, in)
		}
		if again, _ := m.Out(got); again != got {
			t.Errorf("Out(%q) = %q: not stable", got, again)
		}
		// What we wrote reads as it was meant, and always the same: in → out → in.
		read := m.In(got)
		if said, _ := m.Out(read); said != got {
			t.Errorf("%q is read as %q, which says %q", got, read, said)
		}
		if again := m.In(got); again != read {
			t.Errorf("%q is read as %q, then as %q", got, read, again)
		}
		if named := regexp.MustCompile(`[@#]`).MatchString(regexp.MustCompile(`<[@#]\d{1,20}>`).ReplaceAllString(text, "")); !named && read != in {
			t.Errorf("%q is read as %q, and after a way out as %q", text, in, read)
		}
	})
}

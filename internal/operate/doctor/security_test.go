package doctor_test

import (
	"strings"
	"testing"

	"lilac/internal/agent/sandbox"
	"lilac/internal/core/webhook"
	"lilac/internal/foundation/grant"
	"lilac/internal/foundation/policy"
	"lilac/internal/operate/config"
	"lilac/internal/operate/doctor"
	"lilac/internal/surfaces/discord"
)

func TestTheSecurityReportSaysWhatIsOpenToWhom(t *testing.T) {
	for name, c := range map[string]struct {
		set    func(*config.Config)
		check  string
		status doctor.Status
		says   string
	}{
		"loopback":         {func(*config.Config) {}, "api and page", doctor.OK, "from this machine only"},
		"another address":  {func(c *config.Config) { c.Addr = "0.0.0.0:7420" }, "api and page", doctor.Warn, "from other machines"},
		"no Discord":       {func(*config.Config) {}, "discord", doctor.OK, "off"},
		"a channel":        {func(c *config.Config) { c.Surface.Discord.AllowedChannelIDs = []string{"1"} }, "discord: talk", doctor.OK, "everybody who can write in 1 allowed channel"},
		"private messages": {func(c *config.Config) { c.Surface.Discord.AllowDMs = true }, "discord: private", doctor.Warn, "everybody"},
		"listed people":    {func(c *config.Config) { c.Surface.Discord.AllowedUserIDs = []string{"1"} }, "discord: private", doctor.OK, "1 listed person"},
		"strangers":        {func(c *config.Config) { c.Surface.Discord.AllowedChannelIDs = []string{"1"} }, "discord: pairing", doctor.OK, "a code for the operator"},
		"no pairing": {func(c *config.Config) {
			c.Surface.Discord.AllowedChannelIDs, c.Surface.Discord.Pairing = []string{"1"}, discord.PairingOff
		}, "discord: pairing", doctor.OK, "strangers get no answer"},
		"who may stop": {func(c *config.Config) {
			c.Surface.Discord.AllowedChannelIDs = []string{"1"}
			c.Surface.Discord.Access.Stop = discord.PeopleSettings{Allow: []string{"role:5"}, Deny: []string{"user:6"}}
		}, "discord: stop", doctor.OK, "the person who asked, and role:5, except user:6"},
		"a policy": {func(c *config.Config) {
			c.Policy = []policy.RuleConfig{{Tool: []string{"bash"}, Who: []string{"role:5"}, Do: "ask"}}
		}, "policy 1", doctor.OK, "ask: bash, for role:5, everywhere; the operator may approve, and role:5"},
		"only a role": {func(c *config.Config) {
			c.Surface.Discord.AllowedGuildIDs = []string{"1"}
			c.Surface.Discord.Access.Act.Allow = []string{"role:5"}
		}, "discord: act", doctor.OK, "if they are role:5"},
		"a webhook":         {func(c *config.Config) { c.Webhooks = map[string]webhook.Config{"ci": {}} }, "webhook ci", doctor.OK, "can repeat it"},
		"everything":        {func(*config.Config) {}, "tools: page", doctor.OK, "everything"},
		"a restricted page": {func(c *config.Config) { c.Surface.Web.Tools = grant.Config{Allow: []string{"read", "write"}} }, "tools: page", doctor.OK, "reading, write"},
		"a page with an agent": {func(c *config.Config) {
			c.Agents = config.Agents{"careful": {Tools: grant.Config{Allow: []string{"read", "edit"}}}}
			c.Channels = map[string]config.Channel{"web": {Agent: "careful"}}
		}, "tools: page", doctor.OK, "reading, edit"},
		"an agent": {func(c *config.Config) {
			c.Agents = config.Agents{"careful": {Tools: grant.Config{Allow: []string{"read"}}}}
		}, "tools: agent careful", doctor.OK, "only reading"},
		"a read-only page": {func(c *config.Config) { c.Surface.Web.Tools = grant.Config{Allow: []string{"read"}} }, "tools: page", doctor.OK, "only reading"},
		"no sandbox":       {func(c *config.Config) { c.Sandbox.Mode = sandbox.ModeOff }, "commands", doctor.Warn, "no sandbox"},
		"no host":          {func(*config.Config) {}, "network", doctor.OK, "no host"},
		"an internal host": {func(c *config.Config) { c.Sandbox.Network.Hosts = hosts("db.lan", true) }, "network", doctor.Warn, "db.lan"},
		"a host":           {func(c *config.Config) { c.Sandbox.Network.Hosts = hosts("example.org", false) }, "network", doctor.OK, "example.org"},
		"no accounts":      {func(*config.Config) {}, "accounts", doctor.OK, "only the operator can sign in"},
		"OIDC": {func(c *config.Config) {
			c.Accounts.OIDC = config.OIDCUser{Issuer: "https://id.example", Allow: config.OIDCAllow{Domains: []string{"team.example"}}}
		}, "accounts", doctor.OK, "people of https://id.example in 1 domain sign in as member"},
		"OIDC for operators": {func(c *config.Config) {
			c.Accounts.OIDC = config.OIDCUser{Issuer: "https://id.example", Role: "operator", Allow: config.OIDCAllow{Domains: []string{"team.example"}}}
		}, "accounts", doctor.Warn, "sign in as operator"},
		"callables, unstarted": {func(*config.Config) {}, "callables", doctor.OK, "holders of an operator's token"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config.Default()
			c.set(cfg)
			for _, f := range doctor.Security(t.Context(), doctor.Patient{Config: cfg}) {
				if f.Check != c.check {
					continue
				}
				if f.Status != c.status || !strings.Contains(f.Message, c.says) {
					t.Errorf("%s: %s", f.Status, f.Message)
				}
				return
			}
			t.Errorf("the report says nothing about %q", c.check)
		})
	}
}

func hosts(name string, internal bool) map[string]sandbox.HostConfig {
	return map[string]sandbox.HostConfig{name: {Internal: internal}}
}

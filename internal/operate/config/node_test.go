package config_test

import (
	"strings"
	"testing"

	"lilac/internal/operate/config"
)

func TestTheAddressOfANode(t *testing.T) {
	const database, token = "postgres://lilac@db.test/lilac", "0123456789abcdef"
	for name, c := range map[string]struct{ url, database, token, says string }{
		"none":            {"", "", "", ""},
		"an address":      {"http://10.0.0.5:7420", database, token, ""},
		"a name with TLS": {"https://one.nodes.test/", database, token, ""},
		"no scheme":       {"10.0.0.5:7420", database, token, "http://host:port"},
		"another scheme":  {"ftp://10.0.0.5", database, token, "http://host:port"},
		"no host":         {"http://:7420", database, token, "http://host:port"},
		"a path":          {"http://10.0.0.5:7420/lilac", database, token, "http://host:port"},
		"a password":      {"http://a:b@10.0.0.5:7420", database, token, "http://host:port"},
		"an SQLite file":  {"http://10.0.0.5:7420", "", token, "LILAC_DB_URL"},
		"no common token": {"http://10.0.0.5:7420", database, "", "LILAC_TOKEN"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, _, err := load(t, "", map[string]string{"LILAC_NODE_URL": c.url, "LILAC_DB_URL": c.database, "LILAC_TOKEN": c.token}, config.Flags{})
			switch {
			case c.says == "" && (err != nil || cfg.Node.URL != c.url):
				t.Errorf("%v, want no mistake", err)
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
				t.Errorf("%v, want a mistake that says %q", err, c.says)
			}
		})
	}
}

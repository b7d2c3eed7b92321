package config_test

import (
	"strings"
	"testing"

	"lilac/internal/operate/config"
)

func TestTheProxyOfTheNetwork(t *testing.T) {
	for value, good := range map[string]bool{
		"":                               true,
		"http://proxy.test:3128":         true,
		"proxy.test:3128":                true,
		"http://me:s3cret%21@proxy:3128": true,
		"https://proxy.test":             true,
		"socks5://127.0.0.1:1080":        true,
		"http://me:s3cret%zz@proxy":      false,
		"http://me:s3cret#1@proxy:3128":  false,
		"ftp://me:s3cret@proxy":          false,
		"http://:3128":                   false,
	} {
		for _, name := range []string{"HTTPS_PROXY", "http_proxy"} {
			_, _, err := load(t, "", map[string]string{name: value}, config.Flags{})
			switch {
			case good && err != nil:
				t.Errorf("%s=%s: %v", name, value, err)
			case !good && (err == nil || !strings.Contains(err.Error(), "variable "+name+" is not the address of a proxy") || strings.Contains(err.Error(), "s3cret")):
				t.Errorf("%s=%s: %v, want a mistake that names the variable, and no password", name, value, err)
			}
		}
	}
}

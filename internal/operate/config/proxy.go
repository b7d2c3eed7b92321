package config

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"lilac/internal/foundation/fault"
)

// checkProxies returns an error if a variable that names the proxy of the network is unusable: nothing
// outside could be reached. The rules are those of [net/http.ProxyFromEnvironment], and the schemes
// those of [net/http.Transport].
func (c checker) checkProxies() error {
	var found []error
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"} {
		value := c.getenv(name)
		if value == "" {
			continue
		}
		u, err := url.Parse(value)
		if err != nil || u.Scheme == "" || u.Host == "" {
			u, err = url.Parse("http://" + value)
		}
		if err != nil || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery+u.Fragment != "" || !slices.Contains([]string{"http", "https", "socks5", "socks5h"}, u.Scheme) {
			// The value may contain a password.
			found = append(found, fault.InvalidField(name, "The environment variable %s is not the address of a proxy, such as http://proxy.example.com:3128. Write user:password@ before the host, with special characters as %%XX.", name))
		}
	}
	return errors.Join(found...)
}

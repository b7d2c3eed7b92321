package egress

import (
	"strconv"
	"strings"
)

// Names lists the hosts of rules as text for the model.
func Names(rules []Rule) string {
	var names []string
	for _, r := range rules {
		name := r.Host
		if len(r.Ports) > 0 {
			var ports []string
			for _, port := range r.Ports {
				ports = append(ports, strconv.Itoa(port))
			}
			name += " (port " + strings.Join(ports, ", ") + ")"
		}
		if len(r.Headers) > 0 {
			name += " (ask for http://" + r.Host + "/…: it is sent on as HTTPS, with the credential that you do not have)"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// GitEnvironment returns variables that make git send plain requests to the hosts with
// credentials, because the proxy can add credentials only to those.
func GitEnvironment(rules []Rule) []string {
	var env []string
	for _, r := range rules {
		if len(r.Headers) == 0 {
			continue
		}
		n := strconv.Itoa(len(env) / 2)
		env = append(env, "GIT_CONFIG_KEY_"+n+"=url.http://"+r.Host+"/.insteadOf", "GIT_CONFIG_VALUE_"+n+"=https://"+r.Host+"/")
	}
	if len(env) > 0 {
		env = append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(len(env)/2))
	}
	return env
}

package e2e_test

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
	"lilac/internal/testkit/netproxy"
)

// In a company's network, everything outside is reached through a proxy, and only the proxy knows its
// addresses: the model's host, Discord's API, and Discord's gateway.
func TestEverythingOutsideIsReachedThroughTheProxyOfTheNetwork(t *testing.T) {
	t.Parallel()
	proxy := netproxy.Start(t)
	outside := func(address, name string) string {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		proxy.Know(name+":"+u.Port(), u.Host)
		u.Host = name + ":" + u.Port()
		return u.String()
	}
	model := llmtest.New(t, func(llmtest.Request) llmtest.Script { return llmtest.Say("Hello from outside.") })
	d := e2e.NewDiscord(t, discordtest.Options{})
	d.Set("apiURL", outside(d.APIURL, "discord.lilac.test"))
	gateway := outside(d.GatewayURL, "gateway.lilac.test")
	d.Set("gatewayURL", gateway)
	base := outside(model.URL, "model.lilac.test")
	s := e2e.New(t, append(d.Env(), "HTTP_PROXY="+proxy.URL.String(), "HTTPS_PROXY="+proxy.URL.String(),
		"OPENAI_BASE_URL="+base+"/v1", "OPENAI_API_KEY=test", "LILAC_MODEL=openai/test-model")...)
	s.Restart()
	d.MentionUs(d.General, d.Ada, "hello")
	e2e.Eventually(t, answerWithin, "the mention is answered", func() bool {
		ours := d.Ours(d.General)
		return len(ours) == 1 && ours[0].Content == "Hello from outside."
	})
	session := s.NewSession()
	s.WaitEnded(s.Prompt(session, "hello", event.Prompt).RequestID, answerWithin)
	if said := saidLast(s, session); said != "Hello from outside." {
		t.Errorf("the answer is %q", said)
	}
	for _, address := range []string{gateway, base} {
		if u, err := url.Parse(address); err != nil || !proxy.Asked(u.Host) {
			t.Errorf("%s was reached without the proxy", address)
		}
	}
	doctor := exec.Command(e2e.Binary(t), "doctor", "--data", filepath.Join(s.Dir, "data"), "--addr", s.Addr)
	doctor.Env = append(s.Env, "PATH="+os.Getenv("PATH"), "HOME="+s.Dir, "LILAC_TOKEN="+e2e.Token)
	if said, err := doctor.CombinedOutput(); !strings.Contains(string(said), "openai/test-model") || strings.Contains(string(said), "cannot reach") {
		t.Errorf("doctor says (%v)\n%s", err, said)
	}
	if password, _ := proxy.URL.User.Password(); strings.Contains(s.Log(), password) {
		t.Error("the password of the proxy is in the log")
	}
}

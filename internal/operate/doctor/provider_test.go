package doctor_test

import (
	"strings"
	"testing"

	"lilac/internal/operate/doctor"
	"lilac/internal/testkit/oidctest"
)

func TestTheProviderOfLoginsIsAsked(t *testing.T) {
	there := oidctest.New(t)
	p := patient(t, nil, "accounts:\n  oidc: {issuer: "+there.URL+", clientId: lilac, allow: {domains: [team.example]}}\n")
	found := func() doctor.Finding {
		t.Helper()
		for _, f := range doctor.Examine(t.Context(), p) {
			if f.Check == "login provider" {
				return f
			}
		}
		t.Fatal("there is no finding")
		return doctor.Finding{}
	}
	if f := found(); f.Status != doctor.OK {
		t.Errorf("a provider that answers: %+v", f)
	}
	there.Down(true)
	if f := found(); f.Status != doctor.Warn || !strings.Contains(f.Message, "502") || !strings.Contains(f.Advice, "accounts.oidc.issuer") {
		t.Errorf("a provider that is down: %+v", f)
	}
}

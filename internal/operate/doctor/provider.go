package doctor

import (
	"cmp"
	"context"
	"errors"

	"lilac/internal/operate/config"
	"lilac/internal/serve/oidclogin"
)

// loginProvider checks that the OIDC provider of the team answers. Lilac itself asks it only at a login.
func loginProvider(ctx context.Context, c config.OIDCUser) []Finding {
	const check = "login provider"
	if !c.On() {
		return nil
	}
	if err := oidclogin.New(oidclogin.Options{Issuer: c.Issuer}).Check(ctx); err != nil {
		return []Finding{{
			check, Warn, "nobody can sign in with " + c.Issuer + ": " + cmp.Or(errors.Unwrap(err), err).Error(),
			"Check accounts.oidc.issuer and the network. If a certificate is the trouble, name the file of its authority in SSL_CERT_FILE.",
		}}
	}
	return []Finding{{check, OK, c.Issuer + " answers", ""}}
}

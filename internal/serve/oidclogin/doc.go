// Package oidclogin identifies people with an OpenID Connect provider of the team: the
// authorization code flow with PKCE (RFC 7636), a state, and a nonce, as in OpenID Connect Core
// 1.0, section 3.1.
//
// It promises:
//
//   - A login counts only in the browser that began it, once, within ten minutes.
//   - The ID token must be signed by the provider for this client, must not have expired, and must
//     carry the nonce of the login.
//   - An e-mail address counts only if the provider says that it is verified. People whom no list
//     of the configuration has are refused.
//   - The provider can end the logins of a person (OpenID Connect Back-Channel Logout 1.0).
//   - A provider that cannot be reached fails that login, with a sentence that says so, and nothing
//     else: discovery happens with the first login, not at the start.
//
// Logins that have begun are in memory; after a restart, people begin again. A [Provider] is safe
// for concurrent use.
package oidclogin

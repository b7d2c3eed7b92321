package httpapi

import (
	"context"
	"errors"
	"html"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"lilac/internal/core/account"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/lazyregexp"
	"lilac/internal/serve/origin"
)

// OIDC signs in people with a provider of the team.
type OIDC interface {
	// Name is the name of the provider that people see.
	Name() string
	// Start begins a login: the browser goes to address, and keeps id until it comes back to the
	// redirect address. browser is the id that it has kept from another login, or "".
	Start(ctx context.Context, browser, redirect string) (address, id string, err error)
	// Finish checks what the browser brought back, and returns the person.
	Finish(ctx context.Context, browser string, query url.Values) (account.Subject, error)
	// Exit is the address at which a browser signs out of the provider.
	Exit(ctx context.Context) (address string, err error)
	// Ended checks a logout token of the provider, and returns the id of the person whom it is about.
	Ended(ctx context.Context, token string) (subject string, err error)
}

// entrances serves the pages for people who are not signed in.
type entrances struct {
	people people
	cookie string // name
	// next is the name of the cookie with the link that a person follows after signing in, and
	// flow that of a login with OIDC.
	next, flow string
	oidc       OIDC // nil without a provider
	url        string
	log        *slog.Logger
}

// maxForm limits the form of an invite, and maxLogout that of a provider, in bytes.
const (
	maxForm   = 4 << 10
	maxLogout = 64 << 10
)

// flowAge is the time that a login with OIDC may take, and for which a link is remembered, in seconds.
const flowAge = 10 * 60

// linkSecret matches the secret of a link, so that a cookie leads nowhere else.
var linkSecret = lazyregexp.New(`^[a-z0-9]{10,64}$`)

func (e *entrances) available() error {
	if e.people.service == nil {
		return fault.New(fault.NotFound, "There is nothing at this path.")
	}
	return nil
}

func (e *entrances) withOIDC() error {
	if e.oidc == nil || e.people.service == nil {
		return fault.New(fault.NotFound, "There is nothing at this path.")
	}
	return nil
}

// formPolicy is like plainPolicy, for a page with a form.
var formPolicy = strings.Replace(plainPolicy, "form-action 'none'", "form-action 'self'", 1)

// openInvite shows an invite. Opening it does not use it, because programs that preview links
// open them, too.
func (e *entrances) openInvite(w http.ResponseWriter, r *http.Request) error {
	code := r.URL.Query().Get("code")
	i, err := e.people.service.InviteOf(r.Context(), code)
	if err != nil {
		return e.refused(w, r, err)
	}
	return writePage(w, http.StatusOK, formPolicy, "Welcome, "+html.EscapeString(i.Name), `<p>You are invited to use Lilac as `+string(i.Role)+`.</p>
<form method="post" action="`+home(r)+`join"><input type="hidden" name="code" value="`+html.EscapeString(code)+`"><button type="submit">Sign in</button></form>`)
}

// useInvite signs in the person whom an invite is for.
func (e *entrances) useInvite(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil { // PostFormValue would link the parser of multipart forms
		return fault.Wrap(fault.Invalid, err, "The form cannot be read.")
	}
	_, secret, err := e.people.service.Accept(r.Context(), r.PostForm.Get("code"))
	if err != nil {
		return e.refused(w, r, err)
	}
	http.SetCookie(w, personCookie(r, e.cookie, secret, int(account.LoginAge.Seconds())))
	goTo(w, e.target(w, r))
	return nil
}

// target returns where a person goes who has signed in, and forgets it.
func (e *entrances) target(w http.ResponseWriter, r *http.Request) string {
	c, err := r.Cookie(e.next)
	if err != nil {
		return home(r) + afterLogin
	}
	http.SetCookie(w, e.brief(r, e.next, "", -1))
	if !linkSecret().MatchString(c.Value) {
		return home(r) + afterLogin
	}
	return home(r) + afterLogin + "#/shared/" + c.Value
}

// brief is a cookie that the browser also sends when it comes from another site.
func (e *entrances) brief(r *http.Request, name, value string, age int) *http.Cookie {
	return &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: age, HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: origin.Secure(r)}
}

// openLink leads a browser to a shared conversation: at once, or after the person has signed in.
// The browser goes on from a page of ours, because it sends no cookies on the way from another
// site.
func (e *entrances) openLink(w http.ResponseWriter, r *http.Request) error {
	secret := r.PathValue("code")
	if !linkSecret().MatchString(secret) {
		return fault.New(fault.NotFound, "There is nothing at this path.")
	}
	http.SetCookie(w, e.brief(r, e.next, secret, flowAge))
	return e.goOn(w, home(r)+"#/shared/"+secret)
}

// goOn writes a page that leads to an address of ours.
func (e *entrances) goOn(w http.ResponseWriter, address string) error {
	w.Header().Set("Refresh", "0; url="+address)
	return writePage(w, http.StatusOK, plainPolicy, "Opening Lilac", `<p><a href="`+html.EscapeString(address)+`">Open Lilac</a></p>`)
}

// startOIDC sends a browser to the provider.
func (e *entrances) startOIDC(w http.ResponseWriter, r *http.Request) error {
	address, id, err := e.oidc.Start(r.Context(), e.browser(r), e.redirect(r))
	if err != nil {
		return e.refused(w, r, err)
	}
	http.SetCookie(w, e.brief(r, e.flow, id, flowAge))
	http.Redirect(w, r, address, http.StatusSeeOther)
	return nil
}

func (e *entrances) redirect(r *http.Request) string { return publicURL(e.url, r) + "/oidc/callback" }

// browser returns the id of a browser in which a login has begun, or "".
func (e *entrances) browser(r *http.Request) string {
	if c, err := r.Cookie(e.flow); err == nil {
		return c.Value
	}
	return ""
}

// finishOIDC signs in the person whom the provider has identified.
func (e *entrances) finishOIDC(w http.ResponseWriter, r *http.Request) error {
	// The cookie stays, because another tab may be at the provider. It expires by itself.
	who, err := e.oidc.Finish(r.Context(), e.browser(r), r.URL.Query())
	if err != nil {
		return e.refused(w, r, err)
	}
	_, secret, err := e.people.service.SignIn(r.Context(), who)
	if err != nil {
		return e.refused(w, r, err)
	}
	http.SetCookie(w, personCookie(r, e.cookie, secret, int(account.LoginAge.Seconds())))
	return e.goOn(w, e.target(w, r))
}

// exitOIDC sends a browser to the provider to sign out there, too.
func (e *entrances) exitOIDC(w http.ResponseWriter, r *http.Request) error {
	address, err := e.oidc.Exit(r.Context())
	if err != nil {
		return e.refused(w, r, err)
	}
	http.Redirect(w, r, address, http.StatusSeeOther)
	return nil
}

// endOIDC signs a person out because the provider says so.
func (e *entrances) endOIDC(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxLogout)
	if err := r.ParseForm(); err != nil {
		return fault.Wrap(fault.Invalid, err, "The form cannot be read.")
	}
	subject, err := e.oidc.Ended(r.Context(), r.PostForm.Get("logout_token"))
	if err != nil {
		return err
	}
	return e.people.service.SignOutSubject(r.Context(), subject)
}

// refused tells a person, or a program, why there is no login.
func (e *entrances) refused(w http.ResponseWriter, r *http.Request, err error) error {
	if kind := fault.KindOf(err); !strings.Contains(r.Header.Get("Accept"), "text/html") || kind == fault.Internal {
		return err
	}
	if errors.Unwrap(err) != nil { // the page does not show the cause, such as what the provider answered
		e.log.WarnContext(r.Context(), "sign-in failed", "path", r.URL.Path, "error", err)
	}
	wire := fault.ToWire(err)
	return writePage(w, wire.Kind.HTTPStatus(), plainPolicy, "You cannot sign in", `<p>`+html.EscapeString(wire.Message)+`</p>`+e.offer(r))
}

// offer is the link to the provider; "" without one.
func (e *entrances) offer(r *http.Request) string {
	if e.withOIDC() != nil {
		return ""
	}
	name := html.EscapeString(e.oidc.Name())
	return `<p><a class="button" href="` + home(r) + `oidc/start">Sign in with ` + name + `</a></p>
<p>On a shared computer, <a href="` + home(r) + `oidc/sign-out">sign out of ` + name + `</a>, too.</p>`
}

// routes declares the pages.
func (e *entrances) routes() []route {
	code := []param{{name: "code", doc: "The code of the invite.", schema: `{"type":"string"}`}}
	return []route{
		{
			method: "GET", path: "/join", class: entrance, needs: e.available, summary: "Show an invite.", params: code,
			status: 200, result: "A page.", endpoint: direct("text/html", e.openInvite),
		},
		{
			method: "POST", path: "/join", class: entrance, needs: e.available, summary: "Use an invite: sets the cookie of the person. The body is the form of the page.",
			status: 303, result: "Redirects to the page.", endpoint: direct("", e.useInvite),
		},
		{
			method: "GET", path: "/shared/{code}", class: entrance, needs: e.available, summary: "Open a link to a conversation.",
			status: 200, result: "A page that leads to the conversation.", endpoint: direct("text/html", e.openLink),
		},
		{
			method: "GET", path: "/oidc/start", class: entrance, needs: e.withOIDC, summary: "Begin a login with the OIDC provider.",
			status: 303, result: "Redirects to the provider.", endpoint: direct("", e.startOIDC),
		},
		{
			method: "GET", path: "/oidc/callback", class: entrance, needs: e.withOIDC, summary: "End a login with the OIDC provider: sets the cookie of the person.",
			status: 200, result: "A page that leads to Lilac.", endpoint: direct("text/html", e.finishOIDC),
		},
		{
			method: "GET", path: "/oidc/sign-out", class: entrance, needs: e.withOIDC, summary: "Sign out at the OIDC provider.",
			status: 303, result: "Redirects to the provider.", endpoint: direct("", e.exitOIDC),
		},
		{
			method: "POST", path: "/oidc/logout", class: signed, needs: e.withOIDC, summary: "End the logins of a person. The body is the form of OpenID Connect Back-Channel Logout 1.0.",
			status: 200, result: "Ended.", endpoint: direct("", e.endOIDC),
		},
	}
}

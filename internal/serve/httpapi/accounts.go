package httpapi

import (
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"time"

	"lilac/internal/core/account"
	"lilac/internal/foundation/fault"
	"lilac/internal/serve/origin"
)

// accounts serves people, what they share, and the record of what they did.
type accounts struct {
	people   people
	sessions *sessions
	// url is the address under which people reach the server; "" means that of the request.
	url    string
	cookie string // name
	// provider is the name of the OIDC provider, or "".
	provider string
}

func (s *accounts) available() error {
	if s.people.service == nil {
		return &fault.Error{Kind: fault.Unavailable, Code: "no_accounts", Message: "This server has no accounts."}
	}
	return nil
}

// publicURL returns the address under which a browser reaches the server, without a slash at the
// end.
func publicURL(configured string, r *http.Request) string {
	if configured != "" {
		return configured
	}
	if origin.Secure(r) {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// me describes the caller.
type me struct {
	ID   string       `json:"id"`
	Name string       `json:"name"`
	Role account.Role `json:"role"`
	// Account reports that the caller signed in as a person, and can sign out.
	Account bool `json:"account,omitempty"`
	// Accounts reports that the server has people besides the operator.
	Accounts bool `json:"accounts,omitempty"`
}

func (s *accounts) me(r *http.Request) (me, error) {
	c := callerOf(r.Context())
	return me{ID: c.ID, Name: c.Name, Role: c.Role, Account: c.HasAccount(), Accounts: s.people.service != nil && s.people.service.InUse()}, nil
}

// signOut ends the login of this browser.
func (s *accounts) signOut(w http.ResponseWriter, r *http.Request) error {
	c := callerOf(r.Context())
	if !c.HasAccount() {
		return fault.New(fault.Conflict, "You use the operator's token, which has no account to sign out of.")
	}
	if err := s.people.service.SignOut(r.Context(), c); err != nil {
		return err
	}
	http.SetCookie(w, personCookie(r, s.cookie, "", -1))
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// personCookie is the cookie of a person who is signed in. A negative age deletes it.
func personCookie(r *http.Request, name, secret string, age int) *http.Cookie {
	return &http.Cookie{Name: name, Value: secret, Path: "/", MaxAge: age, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: origin.Secure(r)}
}

type personList struct {
	People  []account.Person `json:"people"`
	Invites []account.Invite `json:"invites"`
	// Provider is the name of the OIDC provider, or missing.
	Provider string `json:"provider,omitempty"`
}

func (s *accounts) list(r *http.Request) (out personList, err error) {
	people, err := s.people.service.People(r.Context())
	if err != nil {
		return out, err
	}
	invites, err := s.people.service.Invites(r.Context())
	return personList{append([]account.Person{}, people...), append([]account.Invite{}, invites...), s.provider}, err
}

// createdInvite is the only response that contains the link.
type createdInvite struct {
	account.Invite
	URL string `json:"url"`
}

func (s *accounts) invite(r *http.Request, in account.NewInvite) (createdInvite, error) {
	i, secret, err := s.people.service.Invite(r.Context(), callerOf(r.Context()), in)
	return createdInvite{i, publicURL(s.url, r) + "/join?code=" + url.QueryEscape(secret)}, err
}

func (s *accounts) dropInvite(r *http.Request) error {
	return s.people.service.DropInvite(r.Context(), callerOf(r.Context()), r.PathValue("invite"))
}

func (s *accounts) change(r *http.Request, in account.PersonChange) (account.Person, error) {
	return s.people.service.Change(r.Context(), callerOf(r.Context()), r.PathValue("person"), in)
}

type actionList struct {
	Actions []account.Action `json:"actions"`
}

func (s *accounts) log(r *http.Request) (out actionList, err error) {
	limit, err := limitOf(r)
	if err != nil {
		return out, err
	}
	before, err := rowBefore(r, "before must be the id of an action.")
	if err != nil {
		return out, err
	}
	found, err := s.people.service.Actions(r.Context(), limit, before)
	out.Actions = append([]account.Action{}, found...)
	return out, err
}

// colleague describes a person to other people.
type colleague struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

type colleagueList struct {
	People []colleague `json:"people"`
}

// colleagues lists the people with whom a conversation can be shared.
func (s *accounts) colleagues(r *http.Request) (out colleagueList, err error) {
	people, err := s.people.service.People(r.Context())
	out.People = []colleague{}
	for _, p := range people {
		if !p.Disabled {
			out.People = append(out.People, colleague{p.ID, p.Name})
		}
	}
	return out, err
}

func (s *accounts) sharing(r *http.Request) (out account.Sharing, err error) {
	if _, err := s.sessions.get(r); err != nil {
		return out, err
	}
	return s.people.service.Sharing(r.Context(), r.PathValue("id"))
}

// newShare shares a conversation with a person.
type newShare struct {
	PersonID string        `json:"personId"`
	Right    account.Right `json:"right"`
}

func (s *accounts) share(r *http.Request, in newShare) (out account.Sharing, err error) {
	if _, err := s.sessions.get(r); err != nil {
		return out, err
	}
	if err := s.people.service.Share(r.Context(), callerOf(r.Context()), r.PathValue("id"), in.PersonID, in.Right); err != nil {
		return out, err
	}
	return s.sharing(r)
}

func (s *accounts) unshare(r *http.Request) error {
	return s.people.service.Unshare(r.Context(), callerOf(r.Context()), r.PathValue("id"), r.PathValue("person"))
}

// newLink creates a link to a conversation.
type newLink struct {
	Right account.Right `json:"right"`
}

// createdLink is the only response that contains the link.
type createdLink struct {
	account.Link
	URL string `json:"url"`
}

func (s *accounts) link(r *http.Request, in newLink) (out createdLink, err error) {
	if _, err := s.sessions.get(r); err != nil {
		return out, err
	}
	l, secret, err := s.people.service.NewLink(r.Context(), callerOf(r.Context()), r.PathValue("id"), in.Right)
	return createdLink{l, publicURL(s.url, r) + "/shared/" + secret}, err
}

func (s *accounts) dropLink(r *http.Request) error {
	return s.people.service.DropLink(r.Context(), callerOf(r.Context()), r.PathValue("id"), r.PathValue("link"))
}

// linkCode uses a link to a conversation.
type linkCode struct {
	Code string `json:"code"`
}

type joined struct {
	SessionID string        `json:"sessionId"`
	Right     account.Right `json:"right"`
}

func (s *accounts) join(r *http.Request, in linkCode) (joined, error) {
	l, err := s.people.service.Join(r.Context(), callerOf(r.Context()), in.Code)
	return joined{l.SessionID, l.Right}, err
}

// routes declares the routes of accounts.
func (s *accounts) routes() []route {
	const manage = account.Manage
	conflict := []response{{409, "It belongs to this person, or there are too many.", reflect.TypeFor[errorBody]()}}
	return []route{
		{
			method: "GET", path: "/me", op: account.Use, summary: "Tell who calls.",
			status: 200, result: "The person, or the operator.", endpoint: reply(s.me),
		},
		{
			method: "POST", path: "/me/sign-out", needs: s.available, op: account.Use, summary: "Sign a person out of this browser.",
			status: 204, result: "Signed out.", endpoint: direct("", s.signOut),
		},
		{
			method: "GET", path: "/accounts", needs: s.available, summary: "List people with accounts, and invites that were not used.",
			status: 200, result: "The people and invites.", endpoint: reply(s.list),
		},
		{
			method: "PATCH", path: "/accounts/{person}", needs: s.available, summary: "Change the role of a person, or disable them.",
			description: "A person who is disabled is signed out everywhere within seconds.",
			status:      200, result: "The person.", endpoint: replyTo(requiredBody, s.change),
		},
		{
			method: "GET", path: "/accounts/colleagues", needs: s.available, op: account.Use, summary: "List the names of people with whom a conversation can be shared.",
			status: 200, result: "The people.", endpoint: reply(s.colleagues),
		},
		{
			method: "POST", path: "/accounts/invites", needs: s.available, summary: "Create an invite, which creates one account, or with personId signs in a person again. Only this response contains the link.",
			description: "It is valid once, for " + days(account.InviteAge) + ".",
			status:      201, result: "The invite with its link.", endpoint: replyTo(requiredBody, s.invite),
		},
		{
			method: "DELETE", path: "/accounts/invites/{invite}", needs: s.available, summary: "Drop an invite.",
			status: 204, result: "Dropped.", endpoint: noContent(s.dropInvite),
		},
		{
			method: "GET", path: "/accounts/log", needs: s.available, summary: "List what people did, newest first. Nothing is recorded before the first invite.",
			params: []param{limitParam, {name: "before", doc: "Continue the list after this id.", schema: `{"type":"integer"}`}},
			status: 200, result: "The actions.", endpoint: reply(s.log),
		},
		{
			method: "GET", path: "/sessions/{id}/sharing", needs: s.available, op: manage, summary: "List the people and the links of a conversation.",
			status: 200, result: "The people and links.", endpoint: reply(s.sharing),
		},
		{
			method: "POST", path: "/sessions/{id}/sharing/people", needs: s.available, op: manage, summary: "Share a conversation with a person, to read or to take part.",
			status: 200, result: "The people and links.", others: conflict, endpoint: replyTo(requiredBody, s.share),
		},
		{
			method: "DELETE", path: "/sessions/{id}/sharing/people/{person}", needs: s.available, op: manage, summary: "Stop sharing a conversation with a person.",
			status: 204, result: "Stopped.", others: conflict, endpoint: noContent(s.unshare),
		},
		{
			method: "POST", path: "/sessions/{id}/sharing/links", needs: s.available, op: manage, summary: "Create a link through which people with accounts can read a conversation or take part. Only this response contains the link.",
			description: "It is valid for " + days(account.LinkAge) + ".",
			status:      201, result: "The link.", others: conflict, endpoint: replyTo(requiredBody, s.link),
		},
		{
			method: "DELETE", path: "/sessions/{id}/sharing/links/{link}", needs: s.available, op: manage, summary: "Revoke a link, also for the people who came through it.",
			status: 204, result: "Revoked.", endpoint: noContent(s.dropLink),
		},
		{
			method: "POST", path: "/shared", needs: s.available, op: account.Use, summary: "Use a link to a conversation.",
			status: 200, result: "The conversation, and what you may do there.", endpoint: replyTo(requiredBody, s.join),
		},
	}
}

// days returns a duration as a text.
func days(d time.Duration) string { return strconv.Itoa(int(d.Hours()/24)) + " days" }

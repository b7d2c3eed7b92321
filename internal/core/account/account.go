package account

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
	"lilac/internal/foundation/text"
)

// Role says what a person may do.
type Role string

// The roles. A [Member] uses conversations; an [Operator] also sees all of them and manages
// Lilac.
const (
	Operator Role = grant.Operator
	Member   Role = grant.Member
)

// Valid reports whether r is a role.
func (r Role) Valid() bool { return r == Operator || r == Member }

// Limits of the tables, and how long secrets are valid.
const (
	// maxPeople is a large team; there is no paging.
	maxPeople  = 1000
	maxInvites = 200
	// maxLogins bounds the browsers of one person; a new one ends the oldest.
	maxLogins = 20
	// maxShares bounds the people of a conversation, and its links.
	maxShares = 200
	maxLinks  = 20
	// maxName bounds a name, in characters.
	maxName = 60

	// InviteAge is the lifetime of an invite.
	InviteAge = 7 * 24 * time.Hour
	// LoginAge is the lifetime of a login in a browser.
	LoginAge = 30 * 24 * time.Hour
	// LinkAge is the lifetime of a link to a conversation.
	LinkAge = 30 * 24 * time.Hour
	// LogAge is the time for which actions are kept.
	LogAge = 365 * 24 * time.Hour
)

// Person is a person with an account. Times are Unix milliseconds.
type Person struct {
	// ID is a short word made from the name. The policy names the person by it.
	ID        string `json:"id"`
	Name      string `json:"name"`
	Role      Role   `json:"role"`
	CreatedAt int64  `json:"createdAt"`
	Disabled  bool   `json:"disabled,omitempty"`
	// SeenAt is the time of the person's last login.
	SeenAt int64 `json:"seenAt,omitempty"`
	// Email and Subject are those of the OIDC provider; both are "" for people who were invited.
	Email   string `json:"email,omitempty"`
	Subject string `json:"-"`
}

// Invite lets one person create an account.
type Invite struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Role      Role   `json:"role"`
	CreatedBy string `json:"createdBy"`
	CreatedAt int64  `json:"createdAt"`
	ExpiresAt int64  `json:"expiresAt"`
	// PersonID is the person for whom the invite is a new login; "" creates a person.
	PersonID string `json:"personId,omitempty"`
}

// Login is a browser in which a person is signed in.
type Login struct {
	PersonID  string
	CreatedAt int64
	ExpiresAt int64
}

// Right says what a person may do in a conversation. A larger right includes the smaller
// ones.
type Right string

// The rights: nothing; reading; writing as well; and also deleting and sharing.
const (
	None  Right = ""
	Read  Right = "read"
	Part  Right = "part"
	Owner Right = "own"
)

// level orders the rights.
func (r Right) level() int { return slices.Index([]Right{None, Read, Part, Owner}, r) }

// Shareable reports whether a conversation can be shared with this right.
func (r Right) Shareable() bool { return r == Read || r == Part }

// Share is the right of one person in a conversation.
type Share struct {
	SessionID string `json:"-"`
	PersonID  string `json:"personId"`
	Name      string `json:"name,omitempty"`
	Right     Right  `json:"right"`
	// Link is the id of the link through which the person came, or "".
	Link      string `json:"link,omitempty"`
	CreatedAt int64  `json:"createdAt"`
}

// Link lets every person with an account join a conversation.
type Link struct {
	ID        string `json:"id"`
	SessionID string `json:"-"`
	Right     Right  `json:"right"`
	CreatedBy string `json:"createdBy"`
	CreatedAt int64  `json:"createdAt"`
	ExpiresAt int64  `json:"expiresAt"`
}

// Action is something that a person did.
type Action struct {
	ID int64 `json:"id"`
	At int64 `json:"at"`
	// PersonID is the person, or [grant.Operator] for the operator's token.
	PersonID string `json:"personId"`
	// Kind is a verb: "sign-in", "share", "prompt".
	Kind string `json:"kind"`
	// SessionID and Subject identify the object of the action; Subject is an id, never a content.
	SessionID string `json:"sessionId,omitempty"`
	Subject   string `json:"subject,omitempty"`
	// Detail is a few words, such as the new role.
	Detail string `json:"detail,omitempty"`
}

// Caller is a person with an account, or the holder of the operator's token, who makes a call.
type Caller struct {
	// ID is that of the person, or [grant.Operator] for the operator's token.
	ID   string
	Name string
	Role Role
	// Login is the hash of the login, nil for the operator's token.
	Login []byte
}

// Token is the caller with the operator's token.
var Token = Caller{ID: grant.Operator, Name: "Operator", Role: Operator}

// HasAccount reports whether the caller is a person with an account.
func (c Caller) HasAccount() bool { return c.Login != nil }

// Person returns the caller for grants.
func (c Caller) Person() grant.Person {
	if !c.HasAccount() {
		return grant.Person{ID: grant.Operator}
	}
	return grant.Account(c.ID, string(c.Role))
}

// hash returns the form in which a secret is stored.
func hash(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// newSecret returns a secret of 130 random bits, in letters and digits.
func newSecret() string { return strings.ToLower(rand.Text()) }

// newID returns the id of an invite or a link, which is no secret.
func newID() string { return strings.ToLower(rand.Text()[:10]) }

// cleanName returns a name as it is stored, or the error that says what is wrong with it.
func cleanName(name string) (string, error) {
	name = text.SingleLine(name)
	if n := utf8.RuneCountInString(name); n == 0 || n > maxName {
		return "", fault.InvalidField("name", "A name has 1 to %d characters.", maxName)
	}
	return name, nil
}

// maxWord bounds an id, without the number that makes it unique.
const maxWord = 24

// idFor returns a new id for a person: the name in small letters, with a number if somebody
// has it.
func idFor(name string, taken func(id string) bool) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case b.Len() >= maxWord:
		case r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)):
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	word := strings.Trim(b.String(), "-")
	if word == "" || word == grant.Operator || word == grant.Member {
		word = "person"
	}
	for n, id := 2, word; ; n++ {
		if !taken(id) {
			return id
		}
		id = fmt.Sprintf("%s-%d", word, n)
	}
}

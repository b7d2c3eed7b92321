package webui_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
)

// folk is the data of people with accounts.
type folk struct {
	// me is who uses the page; nil is the operator on a server without accounts.
	me      object
	people  []object
	invites []object
	shares  []object
	links   []object
	actions []object
	// signedOut counts the logins that the page ended.
	signedOut int
}

func (f *fake) peopleRoutes(api func(string, func(http.ResponseWriter, *http.Request) any)) {
	serve := func(pattern string, answer func(in object, r *http.Request) any) {
		api(pattern, func(w http.ResponseWriter, r *http.Request) any {
			in := object{}
			_ = json.NewDecoder(r.Body).Decode(&in)
			var got any
			f.set(func() { got = answer(in, r) })
			if got == nil {
				w.WriteHeader(http.StatusNoContent)
			}
			return got
		})
	}
	without := func(all []object, key, value string) []object {
		return slices.DeleteFunc(slices.Clone(all), func(o object) bool { return o[key] == value })
	}
	serve("GET /me", func(object, *http.Request) any {
		if f.folk.me == nil {
			return object{"id": "operator", "name": "Operator", "role": "operator"}
		}
		return f.folk.me
	})
	serve("POST /me/sign-out", func(object, *http.Request) any { f.folk.signedOut++; return nil })
	serve("GET /accounts", func(object, *http.Request) any {
		return object{"people": append([]object{}, f.folk.people...), "invites": append([]object{}, f.folk.invites...)}
	})
	serve("GET /accounts/log", func(object, *http.Request) any {
		return object{"actions": append([]object{}, f.folk.actions...)}
	})
	serve("GET /accounts/colleagues", func(object, *http.Request) any {
		return object{"people": append([]object{}, f.folk.people...)}
	})
	serve("POST /accounts/invites", func(in object, _ *http.Request) any {
		in["id"], in["expiresAt"], in["url"] = "i"+strconv.Itoa(len(f.folk.invites)+1), 1_790_000_000_000, "http://lilac.example/join?code=abc"
		f.folk.invites = append(f.folk.invites, in)
		return in
	})
	serve("DELETE /accounts/invites/{id}", func(_ object, r *http.Request) any {
		f.folk.invites = without(f.folk.invites, "id", r.PathValue("id"))
		return nil
	})
	serve("PATCH /accounts/{id}", func(in object, r *http.Request) any {
		for _, p := range f.folk.people {
			if p["id"] == r.PathValue("id") {
				for k, v := range in {
					p[k] = v
				}
			}
		}
		return in
	})
	sharing := func(object, *http.Request) any {
		return object{"people": append([]object{}, f.folk.shares...), "links": append([]object{}, f.folk.links...)}
	}
	serve("GET /sessions/{id}/sharing", sharing)
	serve("POST /sessions/{id}/sharing/people", func(in object, r *http.Request) any {
		in["name"] = in["personId"]
		f.folk.shares = append(f.folk.shares, in)
		return sharing(in, r)
	})
	serve("DELETE /sessions/{id}/sharing/people/{person}", func(_ object, r *http.Request) any {
		f.folk.shares = without(f.folk.shares, "personId", r.PathValue("person"))
		return nil
	})
	serve("POST /sessions/{id}/sharing/links", func(in object, _ *http.Request) any {
		in["id"], in["createdAt"], in["expiresAt"], in["url"] = "l1", 1_780_000_000_000, 1_790_000_000_000, "http://lilac.example/shared/xyz"
		f.folk.links = append(f.folk.links, in)
		return in
	})
	serve("DELETE /sessions/{id}/sharing/links/{link}", func(_ object, r *http.Request) any {
		f.folk.links = without(f.folk.links, "id", r.PathValue("link"))
		return nil
	})
	serve("POST /shared", func(in object, _ *http.Request) any { return object{"sessionId": "s1", "right": "read"} })
}

// team fills in people, an invite, and what they did.
func (f *fake) team(said string) {
	f.set(func() {
		f.folk.people = []object{
			{"id": "ada", "name": "Ada" + said, "role": "member", "createdAt": 1, "seenAt": 1_760_000_000_000, "email": "ada@lilac.example"},
			{"id": "olga", "name": "Olga" + said, "role": "operator", "createdAt": 1, "disabled": true},
		}
		f.folk.invites = []object{{"id": "i1", "name": "Bob" + said, "role": "member", "createdBy": "operator", "createdAt": 1, "expiresAt": 1_790_000_000_000}}
		f.folk.actions = []object{
			{"id": 2, "at": 1_760_000_000_000, "personId": "ada", "kind": "prompt", "sessionId": "s1", "subject": "m7"},
			{"id": 1, "at": 1_760_000_000_000, "personId": "operator", "kind": "invite", "subject": "i1", "detail": "Bob" + said},
		}
	})
}

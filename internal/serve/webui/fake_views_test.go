package webui_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// views is the data for the views other than the conversation.
type views struct {
	// said is in every text from an untrusted source.
	said    string
	stories map[string]object
	tasks   []object
	letters []object
	// replayed and dropped are the dead letters that the page asked to replay or to drop.
	replayed, dropped []string
	settings          []object
	groups            []object
	rules             []object
	// strangers are the people who ask to send private messages.
	strangers []object
	// earlier are the events of each topic from before the page was opened.
	earlier map[string][]object
	// workflows are the workflows that the agent waits for.
	workflows []object
	// left are the consumer groups that were removed.
	left     []string
	notReady object
	// parts are further parts of the readiness check.
	parts []object
}

func (f *fake) viewRoutes(api func(string, func(http.ResponseWriter, *http.Request) any)) {
	read := func(pattern string, answer func(*http.Request) any) {
		api(pattern, func(w http.ResponseWriter, r *http.Request) any {
			f.mu.Lock()
			defer f.mu.Unlock()
			got := answer(r)
			if got == nil {
				refuse(w, http.StatusNotFound, "not_found", "There is no such thing.")
			}
			return got
		})
	}
	read("GET /search", f.search)
	read("GET /requests/{id}", func(r *http.Request) any {
		if story, ok := f.views.stories[r.PathValue("id")]; ok {
			return story
		}
		return nil
	})
	read("GET /tasks", func(r *http.Request) any { return newest(r, "tasks", f.views.tasks) })
	find := func(r *http.Request) object {
		for _, t := range f.views.tasks {
			if t["id"] == r.PathValue("id") {
				return t
			}
		}
		return nil
	}
	read("GET /tasks/{id}", func(r *http.Request) any {
		if t := find(r); t != nil {
			return t
		}
		return nil
	})
	read("GET /tasks/{id}/output", func(r *http.Request) any {
		if t := find(r); t != nil {
			text := fmt.Sprint(t["result"])
			return object{"text": text, "offset": 0, "next": len(text), "bytes": len(text), "first": 0, "state": t["state"]}
		}
		return nil
	})
	read("POST /tasks/{id}/stop", func(r *http.Request) any {
		t := find(r)
		if t == nil {
			return nil
		}
		t["state"], t["endedAt"], t["stoppedBy"], t["reason"] = "stopped", 1_760_000_060_000, "person", "It was stopped."
		return t
	})
	read("GET /dlq", func(r *http.Request) any { return newest(r, "deadLetters", f.views.letters) })
	read("GET /dlq/{id}", func(r *http.Request) any {
		if i := f.letter(r.PathValue("id")); i >= 0 {
			return f.views.letters[i]
		}
		return nil
	})
	take := func(list *[]string) func(w http.ResponseWriter, r *http.Request) any {
		return func(w http.ResponseWriter, r *http.Request) any {
			f.set(func() {
				id := r.PathValue("id")
				*list = append(*list, id)
				f.views.letters = slices.DeleteFunc(f.views.letters, func(l object) bool { return l["id"] == id })
			})
			return object{"success": true}
		}
	}
	api("POST /dlq/{id}/replay", take(&f.views.replayed))
	api("DELETE /dlq/{id}", take(&f.views.dropped))
	read("GET /workflows", func(r *http.Request) any {
		found := append([]object{}, f.views.workflows...)
		if r.URL.Query().Get("waiting") == "1" {
			found = slices.DeleteFunc(found, func(w object) bool { return w["state"] != "waiting" && w["state"] != "damaged" })
		}
		return newest(r, "workflows", found)
	})
	oneWorkflow := func(r *http.Request) any {
		if i := slices.IndexFunc(f.views.workflows, func(w object) bool { return w["id"] == r.PathValue("id") }); i >= 0 {
			return f.views.workflows[i]
		}
		return nil
	}
	read("GET /workflows/{id}", oneWorkflow)
	read("POST /workflows/{id}/cancel", func(r *http.Request) any {
		w, _ := oneWorkflow(r).(object)
		w["state"], w["detail"] = "cancelled", "Cancelled."
		return w
	})
	read("GET /usage", func(r *http.Request) any {
		share := func(name string, requests, tokens, cost int) object {
			s := object{"name": name, "requests": requests, "usage": object{"inputTokens": tokens, "outputTokens": tokens / 10, "cacheReadTokens": tokens / 2, "costMicros": cost}}
			if requests > 0 {
				s["latency"] = object{"medianMs": 1000 + 100*requests, "p95Ms": 9000}
			}
			return s
		}
		if r.FormValue("days") == "7" {
			return object{"days": []object{share("2026-11-26", 0, 0, 0)}, "models": []object{}, "clients": []object{}, "channels": []object{}, "rules": []object{}, "purposes": []object{}}
		}
		// group has a part of each day.
		group := func(name, title string, part int) object {
			g, days := share(name, 435/part, 435_000/part, 8_700_000/part), []object{}
			for i := part; i < 30; i += 2 {
				days = append(days, share(fmt.Sprintf("2026-11-%02d", i+1), i/part, 1000*i/part, 20_000*i/part))
			}
			g["days"] = days
			if title != "" {
				g["title"] = title
			}
			return g
		}
		days, rules := []object{}, []object{group("", "", 2)}
		for i := range 30 {
			days = append(days, share(fmt.Sprintf("2026-11-%02d", i+1), i, 1000*i, 20_000*i))
		}
		for i := range 7 {
			rules = append(rules, group(fmt.Sprint("rule-", i), "", 8+i))
		}
		delete(rules[6], "days")
		delete(rules[7], "days")
		return object{
			"days": days, "models": []object{group("openai/gpt", "", 1)}, "clients": []object{group("web", "", 2), group("discord", "", 9)},
			"channels": []object{group("s1", "The dandelions "+f.views.said, 2), group("s2", "Backups", 3), share("*", 3, 300, 30)}, "rules": rules,
			"purposes": []object{share("title", 12, 2400, 900)},
		}
	})
	read("GET /bus/{topic}", func(r *http.Request) any {
		events := f.views.earlier[r.PathValue("topic")]
		return object{"events": append([]object{}, events...)}
	})
	read("GET /status", func(*http.Request) any {
		return object{"version": "v1.2.3", "go": "go1.26", "platform": "linux/amd64", "startedAt": 1, "uptimeMs": 93784000, "eventStreams": f.open}
	})
	read("GET /settings", func(*http.Request) any { return object{"settings": append([]object{}, f.views.settings...)} })
	read("GET /rules", func(*http.Request) any { return object{"rules": append([]object{}, f.views.rules...)} })
	read("GET /bus/groups", func(*http.Request) any { return object{"groups": append([]object{}, f.views.groups...)} })
	api("DELETE /bus/groups/{topic}/{group}", func(_ http.ResponseWriter, r *http.Request) any {
		f.set(func() {
			f.views.left = append(f.views.left, r.PathValue("topic")+" "+r.PathValue("group"))
			f.views.groups = slices.DeleteFunc(f.views.groups, func(g object) bool { return g["group"] == r.PathValue("group") })
		})
		return object{}
	})
	api("GET /readyz", func(w http.ResponseWriter, _ *http.Request) any {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.views.notReady != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return f.views.notReady
		}
		return object{"status": "ready", "parts": append([]object{{"name": "database", "status": "ok"}, {"name": "disk", "status": "warning", "message": "900 MiB free"}}, f.views.parts...)}
	})
	api("PATCH /sessions/{id}", func(_ http.ResponseWriter, r *http.Request) any {
		var in map[string]any
		_ = json.NewDecoder(r.Body).Decode(&in)
		var renamed object
		f.set(func() {
			for _, s := range f.sessions {
				if s["id"] == r.PathValue("id") {
					for field, value := range in {
						s[field] = value
					}
					renamed = s
				}
			}
		})
		return renamed
	})
	api("GET /models", func(http.ResponseWriter, *http.Request) any {
		return object{"default": "p/usual", "efforts": []string{"low", "high"}, "agents": []object{{"name": "reviewer", "description": "reads changes"}}, "models": []object{
			{"model": "p/usual", "name": "Usual", "contextTokens": 200000}, {"model": "p/other", "images": true},
		}}
	})
	read("GET /pairings", func(*http.Request) any {
		if f.views.strangers == nil {
			return nil
		}
		return object{"pairings": append([]object{}, f.views.strangers...)}
	})
	settle := func(state string) func(w http.ResponseWriter, r *http.Request) any {
		return func(w http.ResponseWriter, r *http.Request) any {
			var settled any
			f.set(func() {
				for _, p := range f.views.strangers {
					if p["code"] == r.PathValue("code") {
						p["state"], settled = state, p
					}
				}
			})
			if settled == nil {
				refuse(w, http.StatusNotFound, "not_found", "There is no such code.")
			}
			return settled
		}
	}
	api("POST /pairings/{code}/approve", settle("approved"))
	api("POST /pairings/{code}/deny", settle("denied"))
	read("GET /tools/mcp", func(*http.Request) any {
		return object{"servers": []object{
			{"name": "files", "state": "ready", "tools": 12, "restarts": 0},
			{"name": "tickets", "state": "waiting", "tools": 0, "restarts": 3, "trouble": "it ended with exit code 1; its last words: <b>no</b>" + f.views.said},
		}}
	})
	read("GET /nodes", func(*http.Request) any {
		return object{"nodes": []object{
			{"host": "one", "pid": "11", "addr": "0.0.0.0:7420", "version": "1.2.3", "active": true, "since": 1_760_000_000_000, "seen": 1_760_000_100_000},
			{"host": "two", "pid": "22", "addr": "0.0.0.0:7420" + f.views.said, "version": "1.2.4", "since": 1_760_000_000_000, "seen": 1_760_000_100_000},
		}}
	})
	read("GET /sessions/{id}", func(r *http.Request) any {
		for _, s := range f.sessions {
			if s["id"] == r.PathValue("id") {
				return s
			}
		}
		return nil
	})
}

func (f *fake) letter(id string) int {
	return slices.IndexFunc(f.views.letters, func(l object) bool { return l["id"] == id })
}

// search returns the messages that contain the query.
func (f *fake) search(r *http.Request) any {
	q := strings.ToLower(r.URL.Query().Get("q"))
	found, titled := []object{}, []object{}
	for _, m := range slices.Backward(f.messages) {
		if text, _ := m["content"].(string); strings.Contains(strings.ToLower(text), q) && len(found) < 30 {
			found = append(found, object{
				"sessionId": "s1", "sessionTitle": f.sessions[0]["title"], "messageId": m["id"], "requestId": m["requestId"],
				"role": m["role"], "createdAt": m["createdAt"], "excerpt": text,
			})
		}
	}
	for _, s := range f.sessions {
		if strings.Contains(strings.ToLower(fmt.Sprint(s["title"])), q) {
			titled = append(titled, s)
		}
	}
	return object{"sessions": titled, "messages": found}
}

// newest returns one page of a list: the first entries, or the entries after an ID or page token. The page
// contains a token if more entries follow.
func newest(r *http.Request, name string, all []object) object {
	if before := r.URL.Query().Get("before"); before != "" {
		id := strings.TrimPrefix(before, placed)
		all = all[slices.IndexFunc(all, func(o object) bool { return o["id"] == id })+1:]
	}
	limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil || limit >= len(all) {
		return object{name: append([]object{}, all...)}
	}
	page := append([]object{}, all[:limit]...)
	if name == "deadLetters" {
		return object{name: page}
	}
	return object{name: page, "next": fmt.Sprint(placed, page[limit-1]["id"])}
}

// placed is the prefix of page tokens, so that a token is never mistaken for an ID.
const placed = "1:"

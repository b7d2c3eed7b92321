package killpoints

import (
	"net/http"
	"path"
	"slices"
	"strings"

	"lilac/internal/core/outbox"
	"lilac/internal/core/relay"
	"lilac/internal/core/router"
	"lilac/internal/core/workflow"
	"lilac/internal/engine/db"
	"lilac/internal/surfaces/discord"
)

// These points of LILAC_KILL_AT belong to the platforms. Each is reached in every run at the same
// step. The first form of a pair kills the process in the transaction, the second after the
// commit. For API calls, the first form applies before the call is sent, the second after its
// response arrived:
//
//	ingest, ingested            a person's message is recorded
//	order, ordered              the action of a button is recorded
//	settle, settled             the action is completed
//	forward, forwarded          the action is passed to the runner
//	show:STATE, shown:STATE     a relay is started, ended (its request is) or finished
//	outbox:STATE, outboxed:STATE  a message is planned, sending or sent
//	outbox:OWNER:STATE, outboxed:OWNER:STATE  a message of a relay, tool or workflow
//	wait:STATE, waited:STATE    a workflow is saved as waiting or resolved
//	call:METHOD, called:METHOD  an API call about messages: POST, PATCH
//	call:METHOD:CHANNEL, called:METHOD:CHANNEL  an API call about messages of a channel
//	call:ack, called:ack        a button or command is acknowledged
//	call:tell, called:tell      the user of a button or command gets the result

// at kills the process at a point in the transaction or after its commit.
func at(tx *db.Tx, before, after string) {
	switch killAt() {
	case before:
		kill()
	case after:
		tx.AfterCommit(kill)
	}
}

type (
	killDiscordInbox struct{ discord.Inbox }
	killInteractions struct{ weakInteractions }
)

func onDiscord(t discord.Tables) discord.Tables {
	t.Inbox = killDiscordInbox{t.Inbox}
	t.Gateway, t.Gaps = weakGateway{t.Gateway}, weakGaps{t.Gaps}
	t.Interactions = killInteractions{weakInteractions{t.Interactions}}
	return t
}

func (t killDiscordInbox) Seen(tx *db.Tx, source, externalID string, value []byte) ([]byte, bool, error) {
	at(tx, "ingest", "ingested")
	return t.Inbox.Seen(tx, source, externalID, value)
}

func (t killInteractions) PutInteraction(tx *db.Tx, o discord.PendingInteraction) error {
	if o.Reply == "" {
		at(tx, "order", "ordered")
	} else {
		at(tx, "settle", "settled")
	}
	return t.weakInteractions.PutInteraction(tx, o)
}

type killRouter struct{ router.Table }

func onRouter(t router.Table) router.Table { return killRouter{t} }

func (t killRouter) MarkForwarded(tx *db.Tx, platform, sessionID string, ids []string) error {
	at(tx, "forward", "forwarded")
	return t.Table.MarkForwarded(tx, platform, sessionID, ids)
}

type killRelay struct{ relay.Table }

func onRelay(t relay.Table) relay.Table { return killRelay{weakRelay{t}} }

func (t killRelay) SaveRelay(tx *db.Tx, r relay.Row) error {
	if err := t.Table.SaveRelay(tx, r); err != nil {
		return err
	}
	state := "started"
	switch {
	case r.Finished:
		state = "finished"
	case r.End != nil:
		state = "ended"
	}
	at(tx, "show:"+state, "shown:"+state)
	return nil
}

type killOutbox struct{ outbox.Table }

func onOutbox(t outbox.Table) outbox.Table { return killOutbox{weakOutbox{t}} }

func (t killOutbox) Plan(tx *db.Tx, r outbox.Row) (bool, error) {
	fresh, err := t.Table.Plan(tx, r)
	r.State = outbox.Planned
	atRow(tx, r)
	return fresh, err
}

func (t killOutbox) Save(tx *db.Tx, r outbox.Row) error {
	err := t.Table.Save(tx, r)
	atRow(tx, r)
	return err
}

func atRow(tx *db.Tx, r outbox.Row) {
	owner, _, _ := strings.Cut(r.Key, ":")
	for _, point := range []string{string(r.State), owner + ":" + string(r.State)} {
		at(tx, "outbox:"+point, "outboxed:"+point)
	}
}

type killWorkflows struct{ workflow.Table }

func onWorkflows(t workflow.Table) workflow.Table { return killWorkflows{t} }

func (t killWorkflows) SaveWorkflow(tx *db.Tx, w workflow.Workflow) error {
	err := t.Table.SaveWorkflow(tx, w)
	at(tx, "wait:"+string(w.State), "waited:"+string(w.State))
	return err
}

// onCalls adds the points around the API calls of a platform.
func onCalls(next http.RoundTripper) http.RoundTripper { return killCalls{next} }

type killCalls struct{ http.RoundTripper }

func (c killCalls) RoundTrip(r *http.Request) (*http.Response, error) {
	acts := callActs(r)
	stop := func(stage string) {
		if at, act, found := strings.Cut(killAt(), ":"); found && at == stage && slices.Contains(acts, act) {
			kill()
		}
	}
	stop("call")
	response, err := c.RoundTripper.RoundTrip(r)
	stop("called")
	return response, err
}

// callActs returns the names of the points of an API call.
func callActs(r *http.Request) []string {
	switch {
	case strings.HasSuffix(r.URL.Path, "/callback"):
		return []string{"ack"}
	case strings.Contains(r.URL.Path, "/webhooks/"):
		return []string{"tell"}
	}
	channel, found := strings.CutSuffix(r.URL.Path, "/messages")
	if !found {
		channel, _, found = strings.Cut(r.URL.Path, "/messages/")
	}
	if !found {
		return nil
	}
	return []string{r.Method, r.Method + ":" + path.Base(channel)}
}

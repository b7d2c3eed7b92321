package session

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"lilac/internal/agent"
	"lilac/internal/agent/tool"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
)

// A conversation only grows at its end: each model call repeats the call before it and adds
// messages. Otherwise providers read nothing from their caches, and the newest models refuse
// the thinking of earlier answers. A Prompt holds what the model was sent and the history
// does not have. It is saved with each answer, so that it survives restarts, and a
// compaction begins a new one.
type Prompt struct {
	// From is the sequence number at which the conversation begins: after a compaction, or
	// where a person began a new one. A prompt of another beginning is not used.
	From int64 `json:"from,omitempty"`
	// Prefix is the id of the [Prefix] that every call begins with. Workspace is the directory
	// whose name the prefix leaves out.
	Prefix    string `json:"prefix"`
	Workspace string `json:"workspace,omitempty"`
	// Instructions, Tools, and Day are the hashes and the day that the model knows. If they
	// have changed, a note tells the new ones.
	Instructions string `json:"instructions"`
	Tools        string `json:"tools"`
	Day          string `json:"day"`
	// Role is the operator's text of the rule whose event began the conversation. It is part
	// of the system prompt, also after a compaction. RoleSeq is the sequence number of the
	// message that it stands for, which is not sent.
	Role    string `json:"role,omitempty"`
	RoleSeq int64  `json:"roleSeq,omitempty"`
	// Opening has the knowledge besides the instructions with which the conversation began. It is part
	// of the system prompt.
	Opening string `json:"opening,omitempty"`
	// Notes are messages of the program between those of the history.
	Notes []PromptNote `json:"notes,omitempty"`
	// Rewritten holds messages that were sent in another form than the history has, by
	// their sequence numbers.
	Rewritten map[int64]chat.Message `json:"rewritten,omitempty"`
	// Transcripts holds the texts that were sent instead of recordings, by the references of
	// their blobs.
	Transcripts map[string]string `json:"transcripts,omitempty"`
	// ThinkingFrom is the first sequence number whose thinking may be sent.
	ThinkingFrom int64 `json:"thinkingFrom,omitempty"`
}

// PromptNote is a message of the program.
type PromptNote struct {
	// Before is the sequence number of the message that follows.
	Before int64  `json:"before"`
	Text   string `json:"text"`
}

// Prefix is the beginning of a conversation's calls. Most conversations share it, and nearly all
// share its tools.
type Prefix struct {
	// System has the instructions. Where they are stored, [workspaceMark] stands for the name of the
	// conversation's workspace.
	System string      `json:"system"`
	Tools  PrefixTools `json:"tools,omitempty"`
	// ToolsID names the tools: prefixes with the same tools have the same.
	ToolsID string `json:"toolsId,omitempty"`
}

// PrefixTools are the tools of a prefix.
type PrefixTools []llm.ToolSpec

// workspaceMark stands for the workspace, because conversations with workspaces of their own would
// otherwise share no prefix. It is a character for private use.
const workspaceMark = "\ue000"

func withoutWorkspace(system, workspace string) string {
	if workspace == "" {
		return system
	}
	return strings.ReplaceAll(system, workspace, workspaceMark)
}

func withWorkspace(system, workspace string) string {
	if workspace == "" {
		return system
	}
	return strings.ReplaceAll(system, workspaceMark, workspace)
}

// slot names the origin of a message of the agent's conversation: the history, or a note. A
// summary has the sequence number of the last message that it covers.
type slot struct {
	seq  int64
	note string // its text; seq is that of the message that follows
}

// sentPrompt is the prompt of a run. The run's goroutine owns it.
type sentPrompt struct {
	Prompt
	known bool  // the session has a prompt
	from  int64 // the beginning of the conversation
	// unsaved means that the prompt has changed since it was read.
	unsaved bool
	// notesBefore is the sequence number of the first message of a request that has no
	// answer of the model yet, or 0. New notes precede it.
	notesBefore int64
	// stopped reports that the work above these notes was stopped.
	stopped bool
	// opening is the first message of the conversation, or nil if it is not known.
	opening *HistoryMessage
	// current is what a new conversation would begin with now.
	current Prompt
	// instructions are the current ones, with the opening and the role of the conversation.
	instructions string
	// prefix and nextPrefix are the prefixes before and after a compaction.
	prefix, nextPrefix Prefix
}

// toolSpecs describes the tools of the process and their hash.
type toolSpecs struct {
	specs []llm.ToolSpec
	hash  string
}

func newToolSpecs(tools []tool.Tool) toolSpecs {
	specs := agent.Specs(tools)
	encoded, _ := json.Marshal(specs) // schemas are valid JSON
	return toolSpecs{specs, hashOf(string(encoded))}
}

// allTools returns the tools of a run that begins now.
func (o *Options) allTools() []tool.Tool {
	if o.Pinned == nil {
		return o.Tools
	}
	return slices.Concat(o.Tools, o.Pinned())
}

// of returns the specs of the tools of a run. t are those of the tools that never change.
func (t toolSpecs) of(tools []tool.Tool) toolSpecs {
	if len(tools) == len(t.specs) {
		return t
	}
	return newToolSpecs(tools)
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:12])
}

// readPrompt reads the prompt of a conversation that begins at a sequence number. A damaged one is begun anew: that costs the
// provider's cache, but loses nothing.
func (s *Service) readPrompt(q db.Queryer, sessionID string, from int64) (p sentPrompt, err error) {
	p.Prompt, p.known, err = s.opt.Tables.Prompts.Prompt(q, sessionID)
	if db.IsDamaged(err) {
		s.opt.Logger.Warn("a stored prompt is damaged and begins anew", "session_id", sessionID, "error", err)
		p, err = sentPrompt{}, nil
	}
	if p.From != from {
		p = sentPrompt{}
	}
	p.from = from
	return p, err
}

// assemblePrompt puts the conversation of a run into the form in which earlier calls sent it,
// and adds notes about what has changed since. The current instructions are in system, and
// workspace is the directory that they name. assemblePrompt returns the prefix of the calls, and
// the one that a compaction begins with.
func (r *run) assemblePrompt(system, workspace string, in *agent.Input) (Prefix, *agent.Prefix, error) {
	p, tools, now := &r.sent, r.svc.tools.of(r.tools), r.svc.opt.Now()
	current := Prompt{From: p.from, Instructions: hashOf(system), Tools: tools.hash, Day: now.Format(time.DateOnly)}
	current.Role, current.RoleSeq = p.role()
	if r.svc.opt.Opening != nil {
		current.Opening = r.svc.opt.Opening(r.ctx, r.client, r.sessionID)
	}
	opening := current.Opening
	if p.known {
		opening = p.Opening
	}
	same := Prefix{System: joinInstructions(system, opening, current.Role), Tools: tools.specs, ToolsID: tools.hash}
	system = joinInstructions(system, current.Opening, current.Role)
	if !strings.Contains(system, workspaceMark) {
		current.Workspace = workspace
	}
	current.Prefix = hashOf(withoutWorkspace(system, current.Workspace)) + current.Tools
	samePrefix := hashOf(withoutWorkspace(same.System, p.Workspace)) + current.Tools
	p.current, p.nextPrefix, p.instructions = current, Prefix{System: system, Tools: tools.specs, ToolsID: tools.hash}, same.System
	if p.known && p.Prefix != samePrefix {
		if err := r.readPrefix(); err != nil {
			return Prefix{}, nil, err
		}
	}
	switch {
	case !p.known:
		current.Transcripts = p.Transcripts
		p.Prompt, p.prefix, p.unsaved = current, p.nextPrefix, true
		p.Day = "" // unknown to the model
	case p.Prefix == samePrefix:
		p.prefix = same
	}
	if p.notesBefore > 0 {
		p.addNotes(now)
	}
	r.weaveNotes(in)
	return p.prefix, &agent.Prefix{System: system, Specs: tools.specs, Note: agent.DateNote(now)}, nil
}

// role returns the operator's text in the system prompt, and the message that it stands for:
// that of the earlier calls, or of the first message of a conversation that begins.
func (p *sentPrompt) role() (text string, seq int64) {
	if !p.known && p.opening != nil && p.opening.Message.IsOperator() {
		return p.opening.Message.Text(), p.opening.Seq
	}
	return p.Role, p.RoleSeq
}

// readPrefix reads the prefix of a conversation that began with other instructions or tools.
func (r *run) readPrefix() error {
	p := &r.sent
	err := r.svc.opt.DB.Read(r.ctx, func(q db.Queryer) (err error) {
		p.prefix, p.known, err = r.svc.opt.Tables.Prompts.Prefix(q, p.Prefix)
		p.prefix.System = withWorkspace(p.prefix.System, p.Workspace)
		return err
	})
	switch {
	case db.IsDamaged(err):
		r.svc.opt.Logger.Warn("the stored beginning of a prompt is damaged and begins anew", "session_id", r.sessionID, "error", err)
		p.known = false
		return nil
	case err != nil && r.svc.runCtx.Err() != nil:
		return agent.ErrDrain
	case err != nil && r.ctx.Err() != nil:
		return agent.ErrCancelled
	case db.IsEngineError(err):
		r.recordErr = err
	}
	return err
}

// addNotes tells the model what has changed.
func (p *sentPrompt) addNotes(now time.Time) {
	var texts []string
	if noted := len(p.Notes) > 0 && p.Notes[len(p.Notes)-1].Before >= p.notesBefore; p.stopped && !noted {
		texts = append(texts, agent.StoppedNote)
	}
	if p.Day != p.current.Day {
		texts = append(texts, agent.DateNote(now))
	}
	if p.Instructions != p.current.Instructions {
		texts = append(texts, agent.InstructionsNote(p.instructions))
	}
	if p.Tools != p.current.Tools {
		texts = append(texts, agent.ToolsNote(p.prefix.Tools, p.nextPrefix.Tools))
	}
	if len(texts) == 0 {
		return
	}
	p.Notes = append(slices.Clip(p.Notes), PromptNote{Before: p.notesBefore, Text: strings.Join(texts, "\n\n")})
	p.Day, p.Instructions, p.Tools = p.current.Day, p.current.Instructions, p.current.Tools
	p.unsaved = true
}

// weaveNotes adds the notes to the messages of the history, and replaces those that were sent
// in another form.
func (r *run) weaveNotes(in *agent.Input) {
	messages, slots := make([]chat.Message, 0, len(in.Messages)+len(r.sent.Notes)), make([]slot, 0, len(r.slots)+len(r.sent.Notes))
	notes := r.sent.Notes
	for i, m := range in.Messages {
		at := r.slots[i]
		for len(notes) > 0 && notes[0].Before <= at.seq {
			messages = append(messages, chat.Text(chat.System, notes[0].Text))
			slots = append(slots, slot{seq: notes[0].Before, note: notes[0].Text})
			notes = notes[1:]
		}
		if r.sent.Role != "" && at.seq == r.sent.RoleSeq {
			continue
		}
		if sent, ok := r.sent.Rewritten[at.seq]; ok {
			m = sent
		}
		if at.seq < r.sent.ThinkingFrom {
			m = llm.DropThinking(m)
		}
		messages, slots = append(messages, m), append(slots, at)
	}
	in.Messages, r.slots = messages, slots
}

// addSlots records the origin of messages that were appended to the history.
func (r *run) addSlots(seqs []int64) {
	for _, seq := range seqs {
		r.slots = append(r.slots, slot{seq: seq})
	}
}

// promptAfter returns the prompt after an answer, and whether it must be saved.
func (r *run) promptAfter(s agent.Step) (next Prompt, changed bool) {
	next, changed = r.sent.Prompt, r.sent.unsaved
	if len(s.Rewritten) > 0 {
		next.Rewritten = maps.Clone(next.Rewritten)
		if next.Rewritten == nil {
			next.Rewritten = map[int64]chat.Message{}
		}
		for i, m := range s.Rewritten {
			if i < len(r.slots) && r.slots[i].note == "" {
				next.Rewritten[r.slots[i].seq] = m
				changed = true
			}
		}
	}
	if s.WithoutThinking && len(r.slots) > 0 {
		next.ThinkingFrom, changed = r.slots[len(r.slots)-1].seq+1, true
	}
	return next, changed
}

// compactedPrompt returns the prompt after a compaction that keeps the messages from an index
// on.
func (r *run) compactedPrompt(keep int, from int64) Prompt {
	next := r.sent.current
	next.From = from
	next.Transcripts = r.sent.Transcripts
	next.ThinkingFrom = r.slots[len(r.slots)-1].seq + 1
	for _, at := range r.slots[keep:] {
		if at.note != "" {
			next.Notes = append(next.Notes, PromptNote{Before: at.seq, Text: at.note})
			continue
		}
		if m, ok := r.sent.Rewritten[at.seq]; ok {
			if next.Rewritten == nil {
				next.Rewritten = map[int64]chat.Message{}
			}
			next.Rewritten[at.seq] = m
		}
	}
	return next
}

// writePrompt saves a prompt and its prefix.
func (r *run) writePrompt(tx *db.Tx, p Prompt, prefix Prefix) error {
	prefix.System = withoutWorkspace(prefix.System, p.Workspace)
	return r.svc.opt.Tables.Prompts.SavePrompt(tx, r.sessionID, p, prefix)
}

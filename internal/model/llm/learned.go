package llm

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"lilac/internal/foundation/lazyregexp"
)

// Learned holds what the refusals of one endpoint taught about one model. It is safe for
// concurrent use; the zero value knows nothing.
type Learned struct {
	mu    sync.Mutex // guards the fields below
	facts Facts
	// endings are those of the answers of this process.
	endings endings
	// asked counts the questions for the window; askedAt is the time of the last one.
	asked   int
	askedAt time.Time
	// cuts means that the server cuts longer prompts without a word.
	cuts bool
	// changed is called after a change, without the lock; it may be nil.
	changed func(Facts)
}

// Facts are the differences of an endpoint from its protocol.
type Facts struct {
	// Omit lists the fields that the endpoint refuses.
	Omit map[string]bool `json:"omit,omitempty"`
	// Rename maps fields to the names that the endpoint wants instead.
	Rename map[string]string `json:"rename,omitempty"`
	// ContextTokens and MaxOutputTokens are the limits that a refusal or a list of
	// models stated; 0 if unknown.
	ContextTokens   int `json:"contextTokens,omitempty"`
	MaxOutputTokens int `json:"maxOutputTokens,omitempty"`
	// NoMedia means that the model accepts no images and documents.
	NoMedia bool `json:"noMedia,omitempty"`
	// StrictTurns means that no user message may follow a tool message. Chat templates of
	// Mistral's models call that roles that do not alternate: they do not count the messages
	// of tools.
	StrictTurns bool `json:"strictTurns,omitempty"`
	// NoSystem means that no message may have the role system or developer.
	NoSystem bool `json:"noSystem,omitempty"`
	// NineLetterIDs means that ids of calls must have nine letters and digits.
	NineLetterIDs bool `json:"nineLetterIDs,omitempty"`
	// AllReasoning means that every assistant message must have its reasoning.
	AllReasoning bool `json:"allReasoning,omitempty"`
	// PlainSchemas means that the schemas of tools must be plain; see [Facts.ToolSchema].
	PlainSchemas bool `json:"plainSchemas,omitempty"`
	// OtherAPI means that the endpoint supports only the other one of OpenAI's APIs.
	OtherAPI bool `json:"otherAPI,omitempty"`
}

// Facts returns what is known.
func (l *Learned) Facts() Facts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.facts.clone()
}

// SetContext records limits that a list of models states. Zero keeps a limit.
func (l *Learned) SetContext(contextTokens, maxOutputTokens int) {
	l.update(func(f *Facts) {
		if contextTokens > 0 {
			f.ContextTokens = contextTokens
		}
		if maxOutputTokens > 0 {
			f.MaxOutputTokens = maxOutputTokens
		}
	})
}

// SetCuts records that the server cuts prompts that are longer than the window without a word, instead
// of refusing them.
func (l *Learned) SetCuts() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cuts = true
}

// Cuts returns the size of the window if no refusal would tell that it has become smaller, or 0.
func (l *Learned) Cuts() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.cuts {
		return 0
	}
	return l.facts.ContextTokens
}

const (
	// windowTries bounds the questions to an endpoint that does not tell its window.
	windowTries = 2
	// askAgain is the time after which a small window is asked for again, because the server may have
	// been started again with a larger one.
	askAgain = 10 * time.Second
)

// MayAskWindow reports whether to ask the endpoint for the size of the window now: if it is unknown,
// was learned by another process, or is small.
func (l *Learned) MayAskWindow(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.facts.ContextTokens
	switch {
	case known == 0 && l.asked >= windowTries, known >= SmallWindow && l.asked > 0, known > 0 && l.asked > 0 && now.Sub(l.askedAt) < askAgain:
		return false
	}
	l.asked++
	l.askedAt = now
	return true
}

// update changes the facts and reports the change.
func (l *Learned) update(change func(*Facts)) {
	l.mu.Lock()
	before, next := l.facts, l.facts.clone()
	change(&next)
	l.facts = next
	changed := l.changed
	l.mu.Unlock()
	if changed != nil && !reflect.DeepEqual(before, next) {
		changed(next.clone())
	}
}

func (f Facts) clone() Facts {
	f.Omit, f.Rename = maps.Clone(f.Omit), maps.Clone(f.Rename)
	return f
}

// ApplyFacts omits and renames the fields that the endpoint refused in the objects of a
// request, and returns the names of the fields that remain.
func ApplyFacts[O ~map[string]any](f Facts, groups ...[]O) []string {
	names := map[string]bool{}
	for _, objects := range groups {
		for _, o := range objects {
			for name := range f.Omit {
				delete(o, name)
			}
			for from, to := range f.Rename {
				if v, ok := o[from]; ok {
					delete(o, from)
					o[to] = v
				}
			}
			for name := range o {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Sent describes a request that was refused.
type Sent struct {
	// Fields names the fields of the body and of its messages.
	Fields []string
	// MaxOutputTokens is the requested output.
	MaxOutputTokens int
	// Media means that the prompt has images or documents, Tools that the call offers tools.
	Media, Tools bool
	// NoReasoning means that the reasoning of earlier answers was omitted.
	NoReasoning bool
}

// Change tells the adapter how to repeat a refused request.
type Change struct {
	// MaxOutputTokens is the output limit of the repeated call; 0 keeps the limit.
	MaxOutputTokens int
	// NoReasoning omits the reasoning of earlier answers, whose signatures the provider
	// refused.
	NoReasoning bool
}

// maxAdaptations bounds how often one call is repeated because of what its refusals
// taught.
const maxAdaptations = 5

// Adapt makes a call, and repeats it as long as a refusal teaches how to change the
// request. The call builds its request from the facts and the change, and reports whether
// it has emitted chunks; then it is not repeated.
func (l *Learned) Adapt(call func(facts Facts, change Change) (sent Sent, begun bool, err error)) error {
	var change Change
	for try := 0; ; try++ {
		sent, begun, err := call(l.Facts(), change)
		sent.NoReasoning = change.NoReasoning
		var refused *ProviderError
		if !errors.As(err, &refused) {
			return err
		}
		next, again := l.Learn(*refused, sent)
		if begun || !again || try == maxAdaptations {
			return err
		}
		if next.MaxOutputTokens > 0 {
			change.MaxOutputTokens = next.MaxOutputTokens
		}
		change.NoReasoning = change.NoReasoning || next.NoReasoning
	}
}

// Learn records what a refusal says about the endpoint. It reports whether the same
// request, built anew from the facts and the change, is worth another try.
func (l *Learned) Learn(e ProviderError, sent Sent) (change Change, again bool) {
	l.update(func(f *Facts) { *f, change, again = learn(*f, e, sent) })
	return change, again
}

var (
	unsupported = lazyregexp.New(`(?i)unsupported|not (?:a )?(?:currently )?(?:support|recogni|permit|allow|valid|available|implemented|known|expected|enabled|compatible)|unrecogni[sz]ed|unknown|unexpected|extra(?:neous)? (?:inputs?|fields?|key)|additional propert|does(?: not|n't) (?:support|accept|allow|take)|no such (?:field|parameter|argument)|cannot find field|no longer|deprecated|removed|(?:can|may) only be|only [0-9.]+ (?:is|are) (?:allowed|supported)|cannot both|mutually exclusive|cannot be (?:used|set|specified)|(?:should|must) not be|forbidden|not? field|has no|must be verified`)
	// unsupportedCodes are the codes of refused fields and values.
	unsupportedCodes = map[string]bool{"unsupported_parameter": true, "unsupported_value": true, "unknown_parameter": true, "extra_forbidden": true, "invalid_parameter": true}
	keyword          = lazyregexp.New(`(?i)unexpected keyword argument|unknown field|unrecogni[sz]ed (?:request )?(?:argument|field|parameter)|extra inputs`)
	passBack         = lazyregexp.New("(?i)(reasoning_content|thinking)[`'\"]?.{0,60}(?:must be passed back|is missing|required|must be provided)")
	strictTurn       = lazyregexp.New(`(?i)unexpected role '?user'? after role '?tool|user.{0,20}(?:after|following).{0,20}tool (?:message|role)|tool (?:message|role|result)s?.{0,20}followed by.{0,20}assistant|roles? must alternate`)
	nineLetters      = lazyregexp.New(`(?i)tool[ _]call id.{0,80}length of 9`)
	noSystem         = lazyregexp.New(`(?i)system (?:role|messages?|prompt|instructions?) (?:is |are )?not (?:supported|allowed|enabled|permitted)|(?:developer|system) instructions? (?:is |are )?not (?:enabled|supported)|does(?: not|n't) support (?:the )?(?:system|developer) (?:role|messages?|prompts?|instructions?)|unsupported role:? ['"]?(?:system|developer)|(?:system|developer)['"]? role is not`)
	otherAPI         = lazyregexp.New(`(?i)(?:use|try|only (?:supported|available|works?)|instead)\W.{0,60}(?:v1/(?:responses|chat/completions)|responses (?:api|endpoint)|chat[ /]completions (?:api|endpoint))|not supported (?:in|with|on|by|via) (?:the )?/?(?:v1/(?:responses|chat/completions)|chat[ /]completions)|(?:responses|chat/completions).{0,20} not supported|not a chat model|only supported in (?:the )?/?(?:v1/|chat|responses)|does(?: not|n't) support (?:the )?/?(?:v1/)?(?:responses|chat[ /]completions)|invalid url \(|unsupported endpoint|\b(?:messages|input)['"\x60]?:? (?:field )?(?:is |are )?(?:required|missing)|missing (?:required )?(?:field|parameter|property|argument)s?:? ['"\x60]?(?:messages|input)\b`)
)

// neverOmitted lists the fields without which a request has no meaning.
var neverOmitted = []string{"model", "messages", "stream", "input", "tools", "role", "content", "type", "function", "name", "arguments", "id", "system", "instructions", "tool_calls", "tool_call_id", "tool_use_id", "call_id", "text", "output", "source", "description", "input_schema", "parameters"}

// learn is the decision of [Learned.Learn], without I/O.
func learn(f Facts, e ProviderError, sent Sent) (Facts, Change, bool) {
	status := statusOf(e)
	if status == 0 { // an error inside a stream without a code
		status = 400
	}
	if status < 400 || status == 401 || status == 402 || status == 403 || status == 429 && !isContextLength(e) {
		return f, Change{}, false
	}
	if isContextLength(e) || isOutputLimit(e.Message) {
		return learnLimits(f, e, sent)
	}
	m := e.Message
	switch {
	case suggestsOtherAPI(m):
		return f, Change{}, false // see [Alternative]
	case passBack().MatchString(m) && !f.AllReasoning:
		f.AllReasoning = true
		return f, Change{}, true
	case strictTurn().MatchString(m) && !f.StrictTurns:
		f.StrictTurns = true
		return f, Change{}, true
	case nineLetters().MatchString(m) && !f.NineLetterIDs:
		f.NineLetterIDs = true
		return f, Change{}, true
	case noSystem().MatchString(m) && !f.NoSystem:
		f.NoSystem = true
		return f, Change{}, true
	case (isThinkingRefused(m) || e.Code == "invalid_encrypted_content") && !sent.NoReasoning && !f.AllReasoning:
		return f, Change{NoReasoning: true}, true
	case sent.Media && isMediaRefused(e, status) && noMediaAtAll().MatchString(m) && !f.NoMedia:
		f.NoMedia = true
		return f, Change{}, true
	case sent.Tools && status <= 500 && isSchemaRefused(e) && !f.PlainSchemas:
		f.PlainSchemas = true
		return f, Change{}, true
	case status < 500 && (unsupported().MatchString(m) || unsupportedCodes[strings.ToLower(e.Code)]), keyword().MatchString(m):
		return learnField(f, e, sent)
	}
	return f, Change{}, false
}

// noMediaAtAll matches refusals of all images, unlike those of one image.
var noMediaAtAll = lazyregexp.New(`(?i)(?:not|n't|no).{0,30}(?:support|accept|allow|permit|endpoints?).{0,60}(?:image|vision|multi-?modal|modalit)|(?:image|vision|multi-?modal|image_url|modalit).{0,60}(?:not supported|unsupported|not available|not enabled|disabled)|not a multimodal model|missing data required for image|mmproj|unknown variant .?image_url|text-only|only text`)

// isThinkingRefused matches refusals of thinking blocks whose signature does not fit the
// rest of the conversation.
func isThinkingRefused(m string) bool { return thinkingRefused().MatchString(m) }

var thinkingRefused = lazyregexp.New("(?i)invalid [`'\"]?signature[`'\"]?|thinking[`'\"]? (?:or [`'\"]?redacted_thinking[`'\"]? )?blocks?.{0,80}(?:cannot be modified|must remain|invalid|do not match|was created|changed)|encrypted content.{0,60}(?:could not be|cannot be|invalid)|thought[_ ]signature.{0,40}(?:invalid|not valid)")

func learnLimits(f Facts, e ProviderError, sent Sent) (Facts, Change, bool) {
	if most := outputLimit(e.Message); most > 0 && !isContextLength(e) {
		f.MaxOutputTokens = most
		return f, Change{MaxOutputTokens: most}, sent.MaxOutputTokens > most
	}
	window := contextWindow(e)
	if window > 0 {
		f.ContextTokens = window
	}
	if room := roomForOutput(e.Message, window, sent.MaxOutputTokens); room > 0 && room < sent.MaxOutputTokens {
		return f, Change{MaxOutputTokens: room}, true
	}
	return f, Change{}, false
}

// outputNames are the two names of the output limit in OpenAI's protocol.
var outputNames = map[string]string{"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}

func learnField(f Facts, e ProviderError, sent Sent) (Facts, Change, bool) {
	name := refusedField(e, sent.Fields)
	if name == "" || f.Omit[name] {
		return f, Change{}, false
	}
	original := name
	for from, to := range f.Rename {
		if to == name {
			original = from
		}
	}
	if other := outputNames[name]; other != "" && original == name {
		if f.Rename == nil {
			f.Rename = map[string]string{}
		}
		f.Rename[name] = other
		return f, Change{}, true
	}
	delete(f.Rename, original)
	if f.Omit == nil {
		f.Omit = map[string]bool{}
	}
	f.Omit[original] = true
	return f, Change{}, true
}

// refusedField returns the sent field that a refusal names: as its parameter, in
// quotes, or as the last step of a path, else as a word.
func refusedField(e ProviderError, fields []string) string {
	var candidates []string
	for _, name := range fields {
		if !slices.Contains(neverOmitted, name) {
			candidates = append(candidates, name)
		}
	}
	last := e.Param[strings.LastIndexAny(e.Param, ".]")+1:]
	if slices.Contains(candidates, last) {
		return last
	}
	best, at := "", len(e.Message)
	for _, around := range [][2]string{{"'`\".[", "'`\"]:,."}, {"", ""}} {
		for _, name := range candidates {
			if i := indexOfName(e.Message, name, around[0], around[1]); i >= 0 && (i < at || i == at && len(name) > len(best)) {
				best, at = name, i
			}
		}
		if best != "" {
			return best
		}
	}
	// Some servers use another notation: streamOptions, "stream options".
	words := strings.ToLower(spaced(e.Message))
	for _, name := range candidates {
		if strings.Contains(name, "_") {
			if i := indexOfName(words, strings.ReplaceAll(name, "_", " "), "", ""); i >= 0 && i < at {
				best, at = name, i
			}
		}
	}
	return best
}

// indexOfName returns the position of name as a whole word. If before or after is not
// empty, one of its characters must precede or follow the name.
func indexOfName(s, name, before, after string) int {
	for from := 0; ; {
		i := strings.Index(s[from:], name)
		if i < 0 {
			return -1
		}
		i += from
		from = i + len(name)
		prev, next := byte(' '), byte(' ')
		if i > 0 {
			prev = s[i-1]
		}
		if from < len(s) {
			next = s[from]
		}
		if isNameByte(prev) || isNameByte(next) {
			continue
		}
		if before == "" || strings.IndexByte(before, prev) >= 0 && strings.IndexByte(after, next) >= 0 {
			return i
		}
	}
}

func isNameByte(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// Registry keeps what was learned of every endpoint, across changes of the configuration. The
// zero value is empty and safe for concurrent use.
type Registry struct {
	mu    sync.Mutex // guards byKey and save
	byKey map[string]*Learned
	save  func(key string, f Facts)
}

// Keep adds facts that an earlier process saved, and calls save with each change from now on.
func (r *Registry) Keep(saved map[string]Facts, save func(key string, f Facts)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range saved {
		r.learned(key)
	}
	for key, l := range r.byKey {
		l.mu.Lock()
		if facts, ok := saved[key]; ok {
			l.facts = facts
		}
		l.changed = func(f Facts) { save(key, f) }
		l.mu.Unlock()
	}
	r.save = save
}

// learned returns the entry of a key. The caller holds mu.
func (r *Registry) learned(key string) *Learned {
	if r.byKey == nil {
		r.byKey = map[string]*Learned{}
	}
	l := r.byKey[key]
	if l == nil {
		l = &Learned{}
		if save := r.save; save != nil {
			l.changed = func(f Facts) { save(key, f) }
		}
		r.byKey[key] = l
	}
	return l
}

// Get returns the facts that were learned about a model at an address, called over an API. Facts about one API
// say nothing about another one, which has other fields.
func (r *Registry) Get(baseURL, model, api string) *Learned {
	sum := sha256.Sum256([]byte(baseURL + "\x00" + model + "\x00" + api)) // an address may contain a password
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.learned(hex.EncodeToString(sum[:16]))
}

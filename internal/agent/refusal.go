package agent

import (
	"errors"

	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
)

const (
	// longConversation is the size, in tokens, from which an unexplained refusal may mean
	// that the conversation is too long. Local servers have windows of 4,096 tokens.
	longConversation = 2_000
)

// changesPrompt reports whether a refused prompt is worth another call after a change,
// and plans the change: media become notes, or older messages become a summary.
func (r *run) changesPrompt(f *fault.Error) bool {
	refused := f.Kind == fault.Invalid && f.Code == ""
	tooLong := f.Code == llm.CodeContextLength
	media := r.mediaReplaced.next(r.conv)
	switch {
	case tooLong && (r.compactionForced || llm.IsBodyTooLarge(f)) && media != r.mediaReplaced:
		// Images are most of a large body, and many tokens.
		r.mediaReplaced = media
	case tooLong:
		if r.compactionForced {
			return false
		}
		r.compactionForced, r.mustCompact, r.tooLong = true, true, f
	case r.mayRefuseMedia(f) && media != r.mediaReplaced:
		// The image or document stays in the history, so every later request of the
		// conversation would fail.
		r.mediaReplaced = media
	case refused && !r.compactionForced && len(r.conv) > 2 && EstimateTokens(r.conv) >= longConversation:
		r.compactionForced, r.mustCompact, r.guess = true, true, f
	default:
		return false
	}
	return true
}

// mayRefuseMedia reports whether a failure may be about an image or a document. Servers
// answer with 400, 404, 413, or 500; the last one only counts when it repeats.
func (r *run) mayRefuseMedia(f *fault.Error) bool {
	switch {
	case f.Code == llm.CodeMediaRefused:
		return true
	case f.Code != "":
		return false
	case f.Kind == fault.Unavailable:
		return r.attempts.failures > 0
	}
	return f.Kind == fault.Invalid || f.Kind == fault.NotFound || f.Kind == fault.TooLarge
}

// fitError returns the error of a prompt that could not be made shorter. If it only seemed
// too long, the refusal itself is the error.
func (r *run) fitError(err error) error {
	info := r.cfg.Model.Info()
	switch {
	case !errors.Is(err, errTooLong):
		return err
	case r.guess != nil:
		return r.guess
	case r.tooLong != nil && EstimateTokens(r.conv) < r.overhead && (info.ContextTokens == 0 || info.ContextTokens > 2*r.overhead):
		return r.tooLong // the window has room: perhaps a proxy limits the size of bodies
	case EstimateTokens(r.conv) < min(r.overhead, info.ContextTokens/4):
		return smallWindow(info, r.overhead)
	}
	return err
}

// checkWindow refuses a window that has no room for the instructions and the tools. Some servers would
// cut them off without a word: Ollama does, and its usual window has 4,096 tokens.
func (r *run) checkWindow() error {
	info := r.cfg.Model.Info()
	if info.ContextTokens <= 0 || r.overhead+minBudget <= info.ContextTokens {
		return nil
	}
	return smallWindow(info, r.overhead)
}

func smallWindow(info llm.Info, overhead int) error {
	return fault.New(fault.TooLarge, "The window of the model %s (%d tokens) is too small: the agent's instructions and tools alone take about %d. %s",
		info.Name, info.ContextTokens, overhead, llm.SmallWindowAdvice)
}

// tooLongError returns the error of a conversation that is too long after a compaction.
func tooLongError(f *fault.Error) error {
	long := fault.Wrap(f.Kind, f, "The conversation is too long for the model, even after older messages were summarised. Begin a new conversation, or send less at once. %s", f.Message)
	long.Code = llm.CodeContextLength
	return long
}

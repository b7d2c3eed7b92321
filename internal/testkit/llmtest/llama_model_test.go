//go:build llama

package llmtest_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

// llamaModel is a language model in the format of llama.cpp (GGUF, version 3). Each token has one
// successor, so that it says fixed sentences: which one depends on the last message, by the chat
// template.
type llamaModel struct {
	tokens []string
	kinds  []int32
	next   map[int]int
}

// The types of tokens in GGUF.
const (
	normalToken  = 1
	unknownToken = 2
	controlToken = 3
	byteToken    = 6
)

func (m *llamaModel) token(text string, kind int32) int {
	m.tokens, m.kinds = append(m.tokens, text), append(m.kinds, kind)
	return len(m.tokens) - 1
}

// says makes the tokens of a sentence follow a control token. No two tokens may have the same text.
func (m *llamaModel) says(control string, end int, pieces ...string) {
	at := m.token(control, controlToken)
	for _, piece := range pieces {
		successor := m.token(strings.ReplaceAll(piece, " ", "\u2581"), normalToken)
		m.next[at] = successor
		at = successor
	}
	m.next[at] = end
}

// llamaTemplate presents tools and their calls as Hermes models do, which llama.cpp recognizes.
const llamaTemplate = `{%- if tools %}<|system|># Tools
You may call functions. Signatures are within <tools></tools>:
<tools>
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
</tools>
For each function call return a json object within <tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>
{% endif -%}
{%- for m in messages %}
{%- if m.role == 'user' %}<|user|>{{ m.content }}
{% elif m.role == 'system' %}<|system|>{{ m.content }}
{% elif m.role == 'assistant' %}<|greet|>{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content or '' }}{%- for c in m.tool_calls or [] %}
<tool_call>
{"name": {{ c.function.name | tojson }}, "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{%- endfor %}
{% elif m.role == 'tool' %}<|tool|><tool_response>{{ m.content }}</tool_response>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{%- set last = messages[-1] %}
{%- if last.role == 'tool' %}<|conclude|>{% elif 'one tool' in last.content %}<|call|>{% elif 'two tools' in last.content %}<|twice|>{% elif 'think' in last.content %}<|think|>{% else %}<|greet|>{% endif %}{%- endif %}`

// gguf returns the file of the model.
func gguf() []byte {
	m := &llamaModel{next: map[int]int{}}
	unknown := m.token("<unk>", unknownToken)
	begin, end := m.token("<s>", controlToken), m.token("</s>", controlToken)
	for b := range 256 {
		m.token(fmt.Sprintf("<0x%02X>", b), byteToken)
	}
	for _, role := range []string{"<|user|>", "<|system|>", "<|tool|>"} {
		m.token(role, controlToken)
	}
	m.says("<|greet|>", end, "Hello", " from", " llama.cpp", ": déjà", " vu,", " 日本", ".")
	m.says("<|think|>", end, "<think>", "First", " this", ", then", " that.", "</think>", "\n\nSo", " it", " is.")
	m.says("<|call|>", end, "I look.", "\n<tool_call>\n", `{"name": "read", `, `"arguments": {`, `"path": "a`, `.txt"`, "}}", "\n</tool_call>")
	m.says("<|twice|>", end, "<tool_call>\n"+`{"name": "read", "arguments": {"path": "a.txt"}}`+"\n</tool_call>\n", "<tool_call>\n"+`{"name": "read", "arguments": {"path": "b.txt"}}`+"\n</tool_call>")
	m.says("<|conclude|>", end, "The file", " is", " empty", "!")
	return m.encode(unknown, begin, end)
}

// encode writes the file. The weights of the attention and of the feed-forward layer are zero, so that
// the last token alone decides.
func (m *llamaModel) encode(unknown, begin, end int) []byte {
	const align = 32
	words := len(m.tokens)
	width := (words + 127) / 128 * 128
	var facts, infos, data bytes.Buffer
	number := func(b *bytes.Buffer, v any) { _ = binary.Write(b, binary.LittleEndian, v) } // a buffer accepts everything
	text := func(b *bytes.Buffer, s string) { number(b, uint64(len(s))); b.WriteString(s) }
	count := 0
	fact := func(name string, kind uint32, write func()) {
		text(&facts, name)
		number(&facts, kind)
		write()
		count++
	}
	word := func(name, value string) { fact(name, 8, func() { text(&facts, value) }) }
	size := func(name string, value int) { fact(name, 4, func() { number(&facts, uint32(value)) }) }
	list := func(name string, kind uint32, write func(i int)) {
		fact(name, 9, func() {
			number(&facts, kind)
			number(&facts, uint64(words))
			for i := range words {
				write(i)
			}
		})
	}
	word("general.architecture", "llama")
	for name, value := range map[string]int{
		"llama.context_length": 65536, "llama.embedding_length": width, "llama.block_count": 1, "llama.feed_forward_length": 64,
		"llama.attention.head_count": 4, "llama.attention.head_count_kv": 4, "llama.rope.dimension_count": width / 4, "llama.vocab_size": words,
		"tokenizer.ggml.bos_token_id": begin, "tokenizer.ggml.eos_token_id": end, "tokenizer.ggml.unknown_token_id": unknown,
	} {
		size(name, value)
	}
	fact("llama.attention.layer_norm_rms_epsilon", 6, func() { number(&facts, float32(1e-5)) })
	word("tokenizer.ggml.model", "llama")
	word("tokenizer.chat_template", llamaTemplate)
	for _, name := range []string{"tokenizer.ggml.add_space_prefix", "tokenizer.ggml.add_bos_token"} {
		fact(name, 7, func() { facts.WriteByte(0) })
	}
	list("tokenizer.ggml.tokens", 8, func(i int) { text(&facts, m.tokens[i]) })
	list("tokenizer.ggml.scores", 6, func(int) { number(&facts, float32(0)) })
	list("tokenizer.ggml.token_type", 5, func(i int) { number(&facts, m.kinds[i]) })
	tensors := 0
	type place struct{ row, column int }
	tensor := func(name string, ones []place, dimensions ...int) {
		all := 1
		text(&infos, name)
		number(&infos, uint32(len(dimensions)))
		for _, d := range dimensions {
			number(&infos, uint64(d))
			all *= d
		}
		number(&infos, uint32(0)) // 32-bit floats
		number(&infos, uint64(data.Len()))
		values := make([]byte, 4*all)
		for _, one := range ones {
			binary.LittleEndian.PutUint32(values[4*(one.row*width+one.column):], math.Float32bits(1))
		}
		if len(dimensions) == 1 { // the factors of a norm
			for i := range all {
				binary.LittleEndian.PutUint32(values[4*i:], math.Float32bits(1))
			}
		}
		data.Write(values)
		data.Write(make([]byte, (align-data.Len()%align)%align))
		tensors++
	}
	var itself, before []place
	for i := range words {
		itself = append(itself, place{i, i})
	}
	for from, to := range m.next {
		before = append(before, place{to, from})
	}
	tensor("token_embd.weight", itself, width, words)
	tensor("output_norm.weight", nil, width)
	tensor("output.weight", before, width, words)
	for _, name := range []string{"attn_norm", "ffn_norm"} {
		tensor("blk.0."+name+".weight", nil, width)
	}
	for _, name := range []string{"attn_q", "attn_k", "attn_v", "attn_output"} {
		tensor("blk.0."+name+".weight", nil, width, width)
	}
	tensor("blk.0.ffn_gate.weight", nil, width, 64)
	tensor("blk.0.ffn_up.weight", nil, width, 64)
	tensor("blk.0.ffn_down.weight", nil, 64, width)
	var out bytes.Buffer
	out.WriteString("GGUF")
	number(&out, uint32(3))
	number(&out, uint64(tensors))
	number(&out, uint64(count))
	out.Write(facts.Bytes())
	out.Write(infos.Bytes())
	out.Write(make([]byte, (align-out.Len()%align)%align))
	out.Write(data.Bytes())
	return out.Bytes()
}

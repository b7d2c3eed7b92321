// Voice: dictating a message with the browser's speech recognition, and reading an answer aloud with
// its speech. Some browsers send what is said to their makers, so nothing listens until the person
// presses the button.

const Recognition = window.SpeechRecognition ?? window.webkitSpeechRecognition;

const reasons = {
  'not-allowed': 'The browser does not allow this page to use the microphone.',
  'service-not-allowed': 'The browser does not allow this page to recognize speech.',
  'audio-capture': 'No microphone was found.',
  network: 'The browser could not reach its speech recognition.',
};

// dictate shows the button if the browser recognizes speech. take gets each phrase, and problem a
// sentence about what failed.
export function dictate(button, take, problem) {
  button.hidden = !Recognition;
  let listening = null;
  const draw = () => {
    button.setAttribute('aria-pressed', String(Boolean(listening)));
    button.title = listening ? 'Stop dictating' : 'Dictate';
  };
  button.addEventListener('click', () => {
    if (listening) {
      listening.stop();
      return;
    }
    listening = new Recognition();
    listening.continuous = true;
    listening.lang = navigator.language;
    listening.onresult = ({ results, resultIndex }) => {
      for (const result of [...results].slice(resultIndex)) if (result.isFinal) take(result[0].transcript.trim());
    };
    listening.onerror = ({ error }) => { if (reasons[error]) problem(reasons[error]); };
    listening.onend = () => {
      listening = null;
      draw();
    };
    listening.start();
    draw();
  });
  draw();
}

export const canSpeak = 'speechSynthesis' in window;

// readAloud reads a text, or stops reading if something is being read.
export function readAloud(text) {
  if (speechSynthesis.speaking) speechSynthesis.cancel();
  else speechSynthesis.speak(new SpeechSynthesisUtterance(text));
}

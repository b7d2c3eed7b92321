// Makes pictures fit for models. They accept PNG, JPEG, GIF and WebP, some only up to
// 5 MB of base64 and 8000 pixels, and none looks at more than about 2500 pixels.

const largest = (5 << 20) / 4 * 3;
const widest = 8000;
const fitting = 2576; // pixels of the longer side

// Maximum size of a picture that is made smaller, in bytes.
export const largestPicture = 50 << 20;

const isHEIC = ({ name, type }) => /^image\/hei[cf]/.test(type) || /\.hei[cf]$/i.test(name);

// isPicture reports whether a file may have to be converted.
export const isPicture = (file) => isHEIC(file) || /^image\/(jpeg|png|webp)$/.test(file.type);

// fit returns the file, or a JPEG of it that models accept. problem says why it is not fit.
export async function fit(file) {
  const url = URL.createObjectURL(file);
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    const { naturalWidth: width, naturalHeight: height } = image;
    const longer = Math.max(width, height);
    if (!isHEIC(file) && file.size <= largest && longer <= widest) return { file };
    const scale = Math.min(1, fitting / longer);
    const canvas = Object.assign(document.createElement('canvas'), { width: Math.max(1, width * scale), height: Math.max(1, height * scale) });
    const draw = canvas.getContext('2d');
    if (!isFaithful(draw)) throw new Error('changed');
    draw.fillStyle = '#fff'; // a JPEG has no transparency
    draw.fillRect(0, 0, canvas.width, canvas.height);
    draw.drawImage(image, 0, 0, canvas.width, canvas.height);
    const blob = await new Promise((done) => { canvas.toBlob(done, 'image/jpeg', 0.9); });
    if (!blob) throw new Error('too large');
    return { file: new File([blob], `${file.name.replace(/\.[^.]*$/, '')}.jpg`, { type: 'image/jpeg' }), converted: true };
  } catch {
    const problem = isHEIC(file) ? `Models cannot see “${file.name}”, and this browser cannot convert HEIC pictures. Attach a JPEG: on an iPhone, choose Settings, Camera, Formats, Most Compatible.` : '';
    return { file, problem };
  } finally {
    URL.revokeObjectURL(url);
  }
}

// isFaithful reports whether a canvas returns what was drawn. Against fingerprinting, some
// browsers return noise instead.
function isFaithful(draw) {
  draw.fillStyle = '#123456';
  draw.fillRect(0, 0, 1, 1);
  return [...draw.getImageData(0, 0, 1, 1).data].every((value, i) => Math.abs(value - [0x12, 0x34, 0x56, 0xff][i]) < 8);
}

// The widget of a notebook's cell (anywidget): the explorer's page in a frame, its questions passed on to the kernel.

function render({ model, el }) {
  const frame = document.createElement("iframe");
  frame.title = "NORA explorer";
  frame.style.cssText = `border: 1px solid #8886; width: 100%; height: ${model.get("height")}px`;
  const address = URL.createObjectURL(new Blob([model.get("page")], { type: "text/html" }));
  frame.src = address;
  const asked = ({ source, data }) => source === frame.contentWindow && data?.nora && model.send(data);
  const answered = (content, buffers = []) => {
    const [body] = buffers.map((part) => new Uint8Array(part.buffer ?? part, part.byteOffset ?? 0, part.byteLength).slice());
    frame.contentWindow?.postMessage(body ? { ...content, body } : content, "*");
  };
  window.addEventListener("message", asked);
  model.on("msg:custom", answered);
  el.append(frame);
  return () => {
    window.removeEventListener("message", asked);
    model.off("msg:custom", answered);
    URL.revokeObjectURL(address);
    frame.remove();
  };
}

export default { render };

// Builds src/ into the assets that the Python package puts into every report, and that the explorer serves.
import { build } from "esbuild";
import { readFile, writeFile } from "node:fs/promises";

const folder = (name) => new URL(`../src/nora/${name}/assets/`, import.meta.url).pathname;
const assets = folder("report");
const bundled = ["sigma", "@sigma/node-border", "graphology", "graphology-utils", "events", "fflate"];

// The licences ask for their notices in every copy, and every report is one.
async function notices() {
  const texts = bundled.map(async (name) => {
    const place = new URL(`node_modules/${name}/`, import.meta.url);
    const { version } = JSON.parse(await readFile(new URL("package.json", place), "utf8"));
    const read = (file) => readFile(new URL(file, place), "utf8");
    const text = await read("LICENSE.txt").catch(() => read("LICENSE"));
    return `${name} ${version}\n\n${text.trim()}\n`;
  });
  return (await Promise.all(texts)).join("\n----\n\n").replaceAll("*/", "* /");
}

const common = { bundle: true, minify: true, charset: "utf8", legalComments: "none" };
const licences = await notices();
const heading = "This page includes the following libraries:";

for (const [entry, ...places] of [["report.js", "report"], ["explorer.js", "explorer"], ["theme.js", "report", "explorer"], ["transport.js", "explorer"], ["notebook.js", "explorer"]]) {
  const banner = !["report.js", "explorer.js"].includes(entry) ? "" : `/*! ${heading}\n\n${licences}*/`;
  const { outputFiles } = await build({
    ...common,
    entryPoints: [`src/${entry}`],
    format: entry === "notebook.js" ? "esm" : "iife",
    target: "es2020",
    write: false,
  });
  // Inside a page, these two would end or confuse the script element.
  const code = (banner + outputFiles[0].text)
    .trim()
    .replaceAll("</script", "<\\/script")
    .replaceAll("<!--", "<\\!--");
  for (const one of places) await writeFile(folder(one) + entry, code + "\n");
  console.log(`${entry}: ${(code.length / 1024).toFixed(0)} KB`);
}

for (const entry of ["report", "explorer"]) {
  await build({
    ...common,
    entryPoints: [`src/${entry}.css`],
    target: ["chrome100", "firefox100", "safari15"],
    outfile: `${folder(entry)}${entry}.css`,
  });
}
await writeFile(assets + "LICENSES.txt", licences);

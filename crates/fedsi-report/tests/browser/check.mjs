// Opens pages of runs and comparisons in a real browser: nothing complains, nothing is fetched, nothing sticks out,
// tables sort or say that they go on, and choosing a client changes its pictures and what is said at the top. Usage: node check.mjs BROWSER PAGE...
import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [executablePath, ...pages] = process.argv.slice(2);
assert.ok(executablePath && pages.length, "usage: node check.mjs BROWSER PAGE...");

const live = (page) => page.locator("svg[data-panels]").evaluateAll((all) => all.map((svg) => ({
  name: svg.dataset.plot,
  drawn: svg.querySelector(".chosen").innerHTML,
  title: svg.querySelector("title").textContent,
})));

/** The page at one width, in one colour scheme. */
async function check(browser, path, width, colorScheme) {
  const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
  const complaints = [];
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("request", (request) => /^(file|data):/.test(request.url()) || complaints.push(`asks for ${request.url()}`));
  await page.goto(pathToFileURL(path).href);

  const fits = async (when) => {
    const widest = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(widest <= width, `${path} is ${widest} wide on a screen of ${width}, ${when}`);
  };
  await fits("as it opens");
  await cues(page);
  for (const { name, title } of await live(page)) assert.ok(title.length > 20, `${name} has no words for those who do not see it`);

  // The table sorts by a column, both ways: clients of a run, methods of a comparison.
  const isRun = (await page.locator("#clients").count()) > 0;
  const [table, place] = isRun ? ["#clients", 2] : ["#methods", 1];
  const column = () => page.locator(`${table} tbody tr td:nth-child(${place + 1})`).evaluateAll((cells) =>
    cells.map((cell) => parseFloat(cell.textContent)).filter((value) => !Number.isNaN(value)));
  const heading = page.locator(`${table} thead th`).nth(place);
  for (const [direction, sign] of [["descending", -1], ["ascending", 1]]) {
    await heading.locator("button").click();
    assert.equal(await heading.getAttribute("aria-sort"), direction);
    const values = await column();
    assert.deepEqual(values, [...values].sort((a, b) => sign * (a - b)), `not sorted, ${direction}`);
  }
  if (!isRun) {
    await page.locator(`${table} thead th`).first().locator("button").click();
    const names = await page.locator(`${table} tbody th`).allTextContents();
    assert.deepEqual(names, [...names].sort((a, b) => b.localeCompare(a)), "names are not sorted");
    const plots = await page.locator("svg[data-plot] title").allTextContents();
    assert.ok(plots.length > 3 && plots.every((title) => title.length > 20), "a plot has no words for those who do not see it");
  }

  // Choosing clients: the plots, the heading, the row and the samples follow; all clients come back.
  if (isRun) {
    await classes(page);
    await choosing(page, fits);
  }
  assert.deepEqual(complaints, [], path);
  await page.close();
}

/** A table that is wider than its place says so below; one that is not does not. */
async function cues(page) {
  const wrong = await page.locator(".wide").evaluateAll((all) => all.filter((wide) => {
    if (!wide.checkVisibility()) return false;
    const cue = wide.nextElementSibling;
    return !cue?.classList.contains("cue") || cue.hidden === (wide.scrollWidth > wide.clientWidth + 1);
  }).map((wide) => wide.getAttribute("aria-label")));
  assert.deepEqual(wrong, [], "tables without a true cue");
}

/** Where classes are predicted: a row and a column each in the confusion matrix, and names that are not cut. */
async function classes(page) {
  const names = await page.locator("#classes tbody th").allTextContents();
  if (!names.length || names.length > 20) return;
  const table = page.locator("#confusion");
  assert.deepEqual(await table.locator("tbody th").allTextContents(), names, "rows of the confusion matrix");
  assert.deepEqual(await table.locator("thead span").allTextContents(), names, "its columns");
  const sums = await table.locator("tbody tr").evaluateAll((rows) => rows.map((row) => {
    const numbers = [...row.cells].slice(1).map((cell) => Number(cell.textContent));
    return numbers.slice(0, -1).reduce((sum, count) => sum + count, 0) - numbers.at(-1);
  }));
  assert.ok(sums.every((difference) => difference === 0), "a row does not sum to its class");
  const cut = await page.locator("#classes tbody th, #confusion tbody th").evaluateAll((cells) =>
    cells.filter((cell) => cell.scrollWidth > cell.clientWidth + 1).map((cell) => cell.textContent));
  assert.deepEqual(cut, [], "names are cut");
}

/** Chooses clients of a run, one after another. */
async function choosing(page, fits) {
  const clients = await page.locator("#client option").evaluateAll((all) => all.map((option) => option.value).filter(Boolean));
  assert.equal(await page.locator(".chooser").isVisible(), clients.length > 1, "the chooser");
  if (clients.length > 1) {
    const before = await live(page);
    assert.ok(before.every((plot) => plot.drawn === ""), "a client is shown before one is chosen");
    const [seen, seenCards, said] = [new Set(), new Set(), new Set()];
    const everybody = await page.locator("#headline-all").innerText();
    assert.ok(everybody.length > 20, "nothing is said of all clients");
    for (const client of clients.slice(0, 3)) {
      await page.selectOption("#client", client);
      const now = await live(page);
      const scores = await page.locator("#scores").textContent();
      assert.ok(scores.length > 5, "no scores of the client");
      assert.equal(await page.locator("#clients tbody tr.one").getAttribute("data-client"), client);
      if (!scores.startsWith("no ")) assert.ok(now.every((plot) => plot.drawn.length > 20), `client ${client} is not drawn`);
      assert.ok(!now.some((plot) => plot.drawn.includes("NaN")), `client ${client} is drawn nowhere`);
      // What is said at the top is of this client: its name, and tiles of its own.
      const top = page.locator("#headline-client");
      assert.ok(await top.isVisible() && !(await page.locator("#headline-all").isVisible()), "the headline does not follow");
      const name = await page.locator(`#client option[value="${client}"]`).textContent();
      const words = (await top.locator(".verdict").first().textContent()).toLowerCase();
      assert.ok(words.startsWith(name.toLowerCase()), `${words} is not about ${name}`);
      if (!scores.startsWith("no ")) assert.ok((await top.locator(".tiles > div").count()) >= 3, "no tiles of the client");
      said.add(words);
      // Samples are kept of each client where there are few.
      const own = page.locator("#cards-client");
      if ((await own.count()) && clients.length <= 40 && !scores.startsWith("no ")) {
        assert.ok(await own.isVisible() && !(await page.locator("#cards-all").isVisible()), "samples do not follow");
        assert.ok((await own.locator(".card").count()) > 0, "no samples of the client");
        seenCards.add(await own.innerHTML());
      }
      seen.add(JSON.stringify(now));
      await fits(`with client ${client}`);
    }
    assert.equal(seen.size, Math.min(3, clients.length), "two clients look the same");
    assert.equal(said.size, Math.min(3, clients.length), "the same is said of two clients");
    if (seenCards.size) assert.ok(seenCards.size > 1, "two clients have the same samples");
    await page.selectOption("#client", "");
    assert.deepEqual(await live(page), before, "all clients do not come back");
    assert.equal(await page.locator("#headline-all").innerText(), everybody, "the headline does not come back");
    assert.ok(!(await page.locator("#headline-client").isVisible()), "a client's headline stays");
  }
}

const browser = await chromium.launch({
  executablePath,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update"],
});
try {
  for (const path of pages) {
    for (const width of [1280, 1200, 390]) {
      for (const scheme of ["light", "dark"]) await check(browser, path, width, scheme);
    }
    console.log(`${path}: fine at 1280, 1200 and 390, light and dark`);
  }
} finally {
  await browser.close();
}

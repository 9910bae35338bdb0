#include "gui/app/options.hpp"

#include "gui/app/language.hpp"
#include "gui/app/palettes.hpp"
#include "gui/core/tr.hpp"
#include "topology/units.hpp"

#include <QCommandLineParser>
#include <QRegularExpression>

namespace orrery {
namespace {

constexpr const char* examples = R"(
Examples:
  simgui scenarios/llama3-8b-fsdp-8-h100.json       simulate it and look around
  simgui A.json B.json --compare                    two strategies above each other, A the baseline
  simgui step.trace --view 10ms,12ms                a piece of a trace
  simgui A.json --select 0:l17.qkv@3            an op of rank 0, of microbatch 3
  simgui SWEEP.json --dock sweep                    run a sweep and watch
  simgui A.json --dock placement --screenshot placement.png --size 1200x800
                                                    a picture, without a display
)";

// "12.5ms", "3 s", or a plain number of seconds.
std::optional<std::int64_t> time_of(const QString& text) {
    if (text.startsWith(QLatin1Char('-'))) { // a stage may begin before the step does
        const auto positive = time_of(text.mid(1));
        return positive ? std::optional(-*positive) : std::nullopt;
    }
    if (const auto time = parse_time(text.toStdString())) return time->ps;
    bool good = false;
    const double s = text.toDouble(&good);
    if (!good || s < 0) return std::nullopt;
    return Time::seconds(s).ps;
}

std::optional<QString> read_view(const QString& text, Options& options) {
    const QStringList ends = text.split(QLatin1Char(','));
    const auto begin = time_of(ends.value(0).trimmed()), end = time_of(ends.value(1).trimmed());
    if (ends.size() != 2 || !begin || !end || *begin >= *end)
        return tr("--view %1: expected two times, the first before the second: --view 10ms,12ms").arg(text);
    options.view = {*begin, *end};
    return std::nullopt;
}

std::optional<QString> read_size(const QString& text, Options& options) {
    static const QRegularExpression form(QStringLiteral("^(\\d{2,5})x(\\d{2,5})$"));
    const auto match = form.match(text);
    if (!match.hasMatch()) return tr("--size %1: expected a width and a height in pixels: --size 1600x1000").arg(text);
    options.size = {match.captured(1).toInt(), match.captured(2).toInt()};
    return std::nullopt;
}

} // namespace

ParsedOptions parse_options(const QStringList& arguments, const QStringList& docks) {
    QCommandLineParser parser;
    parser.setApplicationDescription(tr("Simulates scenarios, compares training strategies, shows timelines."));
    parser.addPositionalArgument(QStringLiteral("files"), tr("Scenarios, sweeps and traces."), QStringLiteral("[FILE..]"));
    const QCommandLineOption help({QStringLiteral("h"), QStringLiteral("help")}, tr("Prints this text and ends.")),
        version(QStringLiteral("version"), tr("Prints the version and ends."));
    const QCommandLineOption compare(QStringLiteral("compare"), tr("Show the files above each other, the first as the baseline."));
    const QCommandLineOption view(QStringLiteral("view"), tr("The time shown: two times, as 10ms,12ms or in seconds."),
                                  QStringLiteral("t0,t1"));
    const QCommandLineOption select(QStringLiteral("select"),
                                    tr("Select an op: RANK:OP or RANK:OP@MICROBATCH; #n: the n-th of those alike."), QStringLiteral("id"));
    const QCommandLineOption dock(QStringLiteral("dock"), tr("The view in front: %1.").arg(docks.join(QStringLiteral(", "))),
                                  QStringLiteral("name"));
    const QCommandLineOption screenshot(QStringLiteral("screenshot"),
                                        tr("Write a picture (.png) of the window once everything is simulated, and quit."),
                                        QStringLiteral("file"));
    const QCommandLineOption size(QStringLiteral("size"), tr("Size of the window."), QStringLiteral("WxH"));
    const QCommandLineOption theme(QStringLiteral("theme"), tr("light, dark or system: as the desktop is."), QStringLiteral("name"));
    const QCommandLineOption fresh(QStringLiteral("new"), tr("Do not restore the last session."));
    const QCommandLineOption language(QStringLiteral("language"),
                                      tr("The language: %1; else the desktop's.").arg(languages().join(QStringLiteral(", "))),
                                      QStringLiteral("name"));
    parser.addOptions({help, version, compare, view, select, dock, screenshot, size, theme, language, fresh});

    ParsedOptions out;
    std::optional<QString> wrong;
    if (!parser.parse(arguments)) wrong = parser.errorText();
    if (parser.isSet(help)) return {{}, Answer{parser.helpText() + QLatin1String(examples), 0}};
    if (parser.isSet(version)) return {{}, Answer{QStringLiteral("simgui %1\n").arg(QStringLiteral(ORRERY_VERSION)), 0}};
    Options& o = out.options;
    o.files = parser.positionalArguments();
    o.compare = parser.isSet(compare);
    o.select = parser.value(select);
    o.dock = parser.value(dock);
    o.screenshot = parser.value(screenshot);
    o.theme = parser.value(theme);
    o.language = parser.value(language);
    o.fresh = parser.isSet(fresh) || !o.screenshot.isEmpty();
    if (!wrong && parser.isSet(view)) wrong = read_view(parser.value(view), o);
    if (!wrong && parser.isSet(size)) wrong = read_size(parser.value(size), o);
    if (!wrong && !o.dock.isEmpty() && !docks.contains(o.dock))
        wrong = tr("--dock %1: there is no such view: try %2").arg(o.dock, docks.join(QStringLiteral(", ")));
    if (!wrong && !o.theme.isEmpty() && !ThemeChoice::names().contains(o.theme))
        wrong = tr("--theme %1: expected light or dark, or system").arg(o.theme);
    if (!wrong && !o.language.isEmpty() && !languages().contains(o.language))
        wrong = tr("--language %1: there is no such translation: %2").arg(o.language, languages().join(QStringLiteral(", ")));
    if (!wrong && o.compare && o.files.size() < 2) wrong = tr("--compare needs two files or more");
    if (!wrong && parser.isSet(select) && !o.select.contains(QLatin1Char(':')))
        wrong = tr("--select %1: expected RANK:OP, as 0:l17.qkv").arg(o.select);
    if (wrong) out.answer = Answer{QStringLiteral("simgui: error: %1\n(simgui --help)\n").arg(*wrong), 1};
    return out;
}

QString command_line(const Options& options) {
    const auto quoted = [](QString word) {
        static const QRegularExpression plain(QStringLiteral("^[A-Za-z0-9_./:@,+=-]+$"));
        if (plain.match(word).hasMatch()) return word;
        return QStringLiteral("'") + word.replace(QLatin1Char('\''), QStringLiteral("'\\''")) + QLatin1Char('\'');
    };
    QStringList words{QStringLiteral("simgui")};
    for (const QString& file : options.files) words << quoted(file);
    if (options.compare) words << QStringLiteral("--compare");
    if (options.view) {
        const auto us = [](std::int64_t ps) { return QString::number(static_cast<double>(ps) * 1e-6, 'f', 6) + QStringLiteral("us"); };
        words << QStringLiteral("--view") << us(options.view->first) + QLatin1Char(',') + us(options.view->second);
    }
    if (!options.select.isEmpty()) words << QStringLiteral("--select") << quoted(options.select);
    if (!options.dock.isEmpty()) words << QStringLiteral("--dock") << options.dock;
    return words.join(QLatin1Char(' '));
}

} // namespace orrery

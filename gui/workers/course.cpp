#include "gui/workers/course.hpp"

#include "gui/core/figures.hpp"
#include "gui/core/memory_series.hpp"
#include "gui/core/tr.hpp"

#include <QLocale>
#include <QPainter>

#include <algorithm>

namespace orrery {
namespace {

QString number(double value, int digits) { return QLocale().toString(value, 'f', digits); }
QString bytes_words(double bytes) { return bytes_text(static_cast<std::int64_t>(bytes)); }

struct Look {
    const char* label;
    QRgb light, dark;
    Qt::BrushStyle pattern;
};
// Colours of Okabe and Ito's set.
const Look& look(CourseDoing doing) {
    static const Look all[course_doing_count] = {
        {QT_TRANSLATE_NOOP("orrery", "computes"), 0x0072b2, 0x3d9bd6, Qt::SolidPattern},
        {QT_TRANSLATE_NOOP("orrery", "fetches parameters"), 0x56b4e9, 0x8fd0f5, Qt::BDiagPattern},
        {QT_TRANSLATE_NOOP("orrery", "sends"), 0xe69f00, 0xe69f00, Qt::FDiagPattern},
        {QT_TRANSLATE_NOOP("orrery", "server: update or round"), 0xcc79a7, 0xcc79a7, Qt::SolidPattern},
        {QT_TRANSLATE_NOOP("orrery", "averages"), 0x009e73, 0x14b88a, Qt::Dense4Pattern},
        {QT_TRANSLATE_NOOP("orrery", "waits"), 0xb0b0b0, 0x787878, Qt::Dense6Pattern},
        {QT_TRANSLATE_NOOP("orrery", "trains in vain"), 0xd55e00, 0xe8762a, Qt::DiagCrossPattern},
    };
    return all[static_cast<std::size_t>(doing)];
}

// The versions of parameters that servers count, as a worker's step uses them.
QString version_words(const LooseSpan& s) {
    if (s.version < 0) return {};
    if (s.age < 0) return tr("uses weights of version %1").arg(s.version);
    const auto age = static_cast<std::int64_t>(s.age);
    if (age == 0) return tr("uses weights of version n: %1, to which its gradient is added").arg(s.version);
    return tr("uses weights of version n - %1: %2; its gradient goes into %3").arg(age).arg(s.version).arg(s.version + age);
}

CourseSpan span_of(const LooseSpan& s, bool served) {
    CourseSpan out;
    out.row = served ? s.worker + 1 : s.worker;
    out.begin_s = s.begin_s;
    out.end_s = s.end_s;
    switch (s.doing) {
    case LooseDoing::step:
        out.what = tr("step %1").arg(s.step);
        out.detail = version_words(s);
        break;
    case LooseDoing::push:
        out.doing = CourseDoing::send;
        out.what = tr("pushes the gradient of step %1").arg(s.step);
        break;
    case LooseDoing::pull:
        out.doing = CourseDoing::fetch;
        out.what = tr("pulls the parameters");
        out.detail = tr("version %1").arg(s.version);
        break;
    case LooseDoing::update:
        out.doing = CourseDoing::update;
        out.what = tr("make version %1").arg(s.step);
        out.detail = s.peer < 0 ? tr("with the gradients of all workers") : tr("with the gradient of worker %1").arg(s.peer);
        break;
    case LooseDoing::send:
        out.doing = CourseDoing::send;
        out.beside = true;
        out.what = tr("parameters of step %1 to worker %2").arg(s.step).arg(s.peer);
        if (s.age >= 0) out.detail = tr("steps until they are averaged there: %1").arg(number(s.age, 0));
        break;
    case LooseDoing::mix:
        out.doing = CourseDoing::mix;
        out.what = tr("averages with what came");
        break;
    case LooseDoing::wait:
        out.doing = CourseDoing::wait;
        out.what = served ? tr("waits for the servers") : tr("waits for its peers");
        break;
    }
    return out;
}

WorkersCourse of_workers(const LooseRecord& record, const RunData& run) {
    WorkersCourse out;
    const bool served = run.scenario->strategy.served();
    out.servers = served;
    if (served) out.rows.push_back(tr("servers"));
    for (int w = 0; w < record.shown; ++w) out.rows.push_back(tr("worker %1").arg(w));
    out.length_s = record.length_s;
    for (const LooseSpan& s : record.spans) out.spans.push_back(span_of(s, served));
    out.beside = std::any_of(out.spans.begin(), out.spans.end(), [](const CourseSpan& s) { return s.beside; });
    const LooseReport& l = run.report->loose;
    const QString old = number(l.staleness, 2), worst = number(l.worst_staleness, 0);
    out.words = served ? tr("Gradients are %1 updates old in the mean, %2 at most; up to %3 versions of the parameters are in use; servers "
                            "update %4 % of the time.")
                             .arg(old, worst)
                             .arg(l.versions)
                             .arg(number(100 * l.server_share, 0))
                       : tr("Parameters that come are %1 steps old in the mean, %2 at most; a worker averages once in %3 steps.")
                             .arg(old, worst, number(l.steps_between_averages, 1));
    out.words += " " + tr("A step takes %1, of which a worker waits %2; all send %3 in it.")
                           .arg(seconds_words(l.step_s), seconds_words(l.wait_s), bytes_words(l.bytes_per_step));
    if (record.shown < record.workers) out.words += " " + tr("Shown: %1 of %2 workers.").arg(record.shown).arg(record.workers);
    return out;
}

QString round_words(const FederatedRoundSpan& r, bool stream) {
    QStringList parts;
    parts << (stream ? tr("%1 updates counted").arg(r.counted) : tr("%1 of %2 asked are counted").arg(r.counted).arg(r.asked));
    if (r.late > 0) parts << tr("%1 too late").arg(r.late);
    if (r.given_up > 0) parts << tr("%1 gave up").arg(r.given_up);
    return parts.join(QStringLiteral(", "));
}

QString outcome_words(const FederatedTaskSpan& t, bool stream) {
    switch (t.outcome) {
    case FederatedOutcome::counted:
        return stream ? tr("counted; steps of the server since it began: %1").arg(number(t.staleness, 0)) : tr("counted");
    case FederatedOutcome::late:
        return tr("too late: the round ended without it");
    case FederatedOutcome::given_up:
        return tr("dropped out");
    default:
        return tr("still at work");
    }
}

void add_task(WorkersCourse& out, const FederatedTaskSpan& t, const FederatedExample& example, bool stream) {
    const bool lost = t.outcome == FederatedOutcome::late || t.outcome == FederatedOutcome::given_up;
    const auto add = [&](CourseDoing doing, double begin, double end, const QString& what) {
        if (end > begin) out.spans.push_back({t.place + 1, false, doing, begin, end, what.arg(t.client), outcome_words(t, stream)});
    };
    add(CourseDoing::fetch, t.begin_s, t.train_s, tr("client %1 downloads the model"));
    add(lost ? CourseDoing::lost : CourseDoing::compute, t.train_s, t.upload_s, tr("client %1 trains"));
    add(CourseDoing::send, t.upload_s, t.end_s, tr("client %1 uploads its update"));
    if (!stream)
        add(CourseDoing::wait, t.end_s, example.rounds[static_cast<std::size_t>(t.round)].end_s, tr("client %1 waits for the next round"));
}

WorkersCourse of_clients(const FederatedReport& r, const RunData& run) {
    WorkersCourse out;
    const Federated& f = *run.scenario->federated;
    const bool stream = f.aggregation == Aggregation::fedbuff;
    out.rows.push_back(tr("server"));
    out.servers = true;
    for (int p = 0; p < r.example.places; ++p) out.rows.push_back((stream ? tr("at work: %1") : tr("answer %1")).arg(p + 1));
    int k = 0;
    for (const FederatedRoundSpan& round : r.example.rounds) {
        const QString name = (stream ? tr("step %1 of the server") : tr("round %1")).arg(++k);
        out.spans.push_back({0, false, CourseDoing::update, round.begin_s, round.end_s, name, round_words(round, stream)});
        out.marks.push_back(round.end_s);
        out.length_s = round.end_s;
    }
    for (const FederatedTaskSpan& t : r.example.tasks) add_task(out, t, r.example, stream);
    std::stable_sort(out.spans.begin(), out.spans.end(), [](const CourseSpan& a, const CourseSpan& b) { return a.begin_s < b.begin_s; });
    const QString each =
        tr("%1 (p10 %2, p90 %3)").arg(seconds_words(r.round_s.mean), seconds_words(r.round_s.p10), seconds_words(r.round_s.p90));
    out.words =
        stream
            ? tr("%L1 clients, %2 at work at one time: between steps of the server %3; updates are %4 steps old in the mean, %5 at most.")
                  .arg(r.clients)
                  .arg(f.sampled)
                  .arg(each, number(r.staleness, 2), number(r.worst_staleness, 0))
            : tr("%L1 clients, of which %2 are asked a round: a round takes %3; %4 answers count.")
                  .arg(r.clients)
                  .arg(QLocale().toString(r.asked, 'g', 4), each, QLocale().toString(r.counted, 'g', 4));
    out.words += " " + tr("%1 % of the training is in vain; %2 go down and %3 up each time.")
                           .arg(number(100 * r.wasted_share, 1), bytes_words(r.down_bytes), bytes_words(r.up_bytes));
    if (r.failed_share > 0) out.words += " " + tr("In %1 % of the rounds nobody answers in time.").arg(number(100 * r.failed_share, 1));
    if (r.rounds_to_target > 0)
        out.words += " " + (stream ? tr("The target takes %1 steps of the server: %2.") : tr("The target takes %1 rounds: %2."))
                               .arg(number(r.rounds_to_target, 0), QString::fromStdString(span_text(r.time_to_target_s)));
    return out;
}

} // namespace

QString label(CourseDoing doing) { return tr(look(doing).label); }
QColor colour(CourseDoing doing, bool dark) { return QColor::fromRgb(dark ? look(doing).dark : look(doing).light); }
Qt::BrushStyle pattern(CourseDoing doing) { return look(doing).pattern; }

void fill_course(QPainter& painter, const QRectF& rect, CourseDoing doing, bool dark) {
    const QColor ink = colour(doing, dark);
    const int pale = dark ? 0 : 255; // between the pattern's lines
    const auto mixed = [&](int c) { return (c * 2 + pale * 3) / 5; };
    painter.fillRect(rect, pattern(doing) == Qt::SolidPattern ? ink : QColor(mixed(ink.red()), mixed(ink.green()), mixed(ink.blue())));
    if (pattern(doing) != Qt::SolidPattern) painter.fillRect(rect, QBrush(ink, pattern(doing)));
}

WorkersCourse course_of(const RunData& run) {
    if (run.report && run.workers) return of_workers(*run.workers, run);
    if (run.federated) return of_clients(*run.federated, run);
    WorkersCourse none;
    if (run.scenario && run.scenario->federated && run.report)
        none.words = tr("The rounds are not simulated: a client's step does not fit in memory.");
    else if (run.report && run.report->staleness.worst > 0)
        none.words = tr("The ranks of this run are in the timeline; a slice chosen there says which version of the weights it uses.");
    else
        none.words =
            run.report && run.report->meetings.steps > 1
                ? tr("The workers of this run meet every %1 steps: the timeline shows these steps and the meeting. Workers that exchange "
                     "with servers or peers at times of their own, and clients of federated rounds, are shown here.")
                      .arg(std::llround(run.report->meetings.steps))
                : tr("Workers that exchange with servers or peers at times of their own, and clients of federated rounds, are shown here. "
                     "This run has none.");
    return none;
}

} // namespace orrery

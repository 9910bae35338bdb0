#include "gui/app/execution_view.hpp"

#include "gui/parts/run_label.hpp"
#include "topology/units.hpp"

#include <nlohmann/json.hpp>

#include <QComboBox>
#include <QCoreApplication>
#include <QDir>
#include <QFile>
#include <QFontDatabase>
#include <QFormLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QProgressBar>
#include <QPushButton>
#include <QRegularExpression>
#include <QSpinBox>
#include <QStandardPaths>
#include <QTimer>
#include <QVBoxLayout>

namespace orrery {
namespace {

constexpr int log_lines = 5000;
constexpr int kill_after_ms = 5000; // between the polite signal, which writes a checkpoint, and the other

} // namespace

QString find_simexec() {
    const QString beside = QCoreApplication::applicationDirPath() + QStringLiteral("/simexec");
    return QFile::exists(beside) ? beside : QStandardPaths::findExecutable(QStringLiteral("simexec"));
}

ExecutionView::ExecutionView(RunStore& store, ViewState& state, Documents& documents, QWidget* parent)
    : QWidget(parent), store_(store), state_(state), documents_(documents), program_(new QLineEdit(find_simexec())),
      executor_(new QComboBox), steps_(new QSpinBox), ranks_(new QSpinBox), more_(new QLineEdit),
      run_(new QPushButton(tr("Run on this machine"))), words_(new QLabel), progress_(new QProgressBar), log_(new QPlainTextEdit) {
    layOut();
    process_.setProcessChannelMode(QProcess::MergedChannels);
    connect(&process_, &QProcess::readyRead, this, &ExecutionView::read);
    connect(&process_, &QProcess::finished, this, &ExecutionView::over);
    connect(&process_, &QProcess::errorOccurred, this, [this](QProcess::ProcessError error) {
        if (error != QProcess::FailedToStart) return;
        forget();
        Q_EMIT failed(tr("simexec"), tr("%1 could not be started: %2").arg(process_.program(), process_.errorString()));
        refresh();
    });
    connect(run_, &QPushButton::clicked, this, [this] { running() ? stop() : start(); });
    connect(program_, &QLineEdit::textChanged, this, &ExecutionView::refresh);
    connect(&documents_, &Documents::currentChanged, this, &ExecutionView::refresh);
    refresh();
}

ExecutionView::~ExecutionView() {
    process_.disconnect(this);
    if (!running()) return;
    process_.kill();
    process_.waitForFinished(kill_after_ms);
    forget();
}

void ExecutionView::layOut() {
    program_->setPlaceholderText(tr("path of simexec"));
    program_->setAccessibleName(tr("Program"));
    executor_->setEditable(true);
    executor_->addItems({QStringLiteral("serial"), QStringLiteral("threads")});
    if (!QStandardPaths::findExecutable(QStringLiteral("mpirun")).isEmpty()) executor_->addItem(QStringLiteral("mpi"));
    executor_->setAccessibleName(tr("Executor"));
    steps_->setRange(1, 1000000);
    steps_->setValue(5);
    steps_->setAccessibleName(tr("Steps"));
    ranks_->setRange(0, 4096);
    ranks_->setSpecialValueText(tr("as the scenario"));
    ranks_->setAccessibleName(tr("Ranks"));
    ranks_->setToolTip(tr("A number of devices other than the scenario's: it is simulated too, to be compared with the measurement"));
    progress_->setAccessibleName(tr("Steps done"));
    progress_->setFormat(tr("step %v of %m"));
    progress_->hide();
    more_->setPlaceholderText(tr("further arguments, as --text FILE"));
    more_->setAccessibleName(tr("Further arguments"));
    log_->setReadOnly(true);
    log_->setMaximumBlockCount(log_lines);
    log_->setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));
    log_->setAccessibleName(tr("Output of simexec"));
    words_->setWordWrap(true);
    auto* form = new QFormLayout;
    form->addRow(tr("Program"), program_);
    auto* row = new QHBoxLayout;
    row->addWidget(executor_);
    row->addWidget(new QLabel(tr("steps")));
    row->addWidget(steps_);
    row->addWidget(new QLabel(tr("ranks")));
    row->addWidget(ranks_);
    row->addWidget(more_, 1);
    row->addWidget(run_);
    form->addRow(tr("Executor"), row);
    auto* layout = new QVBoxLayout(this);
    layout->addWidget(new RunLabel(store_, state_));
    layout->addLayout(form);
    layout->addWidget(words_);
    layout->addWidget(progress_);
    layout->addWidget(log_, 1);
}

void ExecutionView::setProgram(const QString& path) { program_->setText(path); }

QString ExecutionView::log() const { return log_->toPlainText(); }

void ExecutionView::refresh() {
    const bool there = !program_->text().isEmpty() && QFile::exists(program_->text()), scenario = documents_.current() != nullptr;
    run_->setText(running() ? tr("Stop") : tr("Run on this machine"));
    progress_->setVisible(running());
    run_->setEnabled(running() || (there && scenario));
    if (running())
        words_->setText(tr("running %1").arg(name_));
    else if (!there)
        words_->setText(tr("simexec was not found: build it, or enter its path"));
    else if (!scenario)
        words_->setText(tr("Choose a run with a scenario first"));
    else
        words_->setText(
            tr("Runs the plan of the current scenario on this machine, and lays the trace of its last step over the prediction"));
}

std::string ExecutionView::withRanks(const std::string& scenario, int ranks) {
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(scenario, nullptr, false, true);
    if (!json.is_object() || ranks <= 0) return scenario;
    nlohmann::ordered_json& cluster = json["cluster"];
    if (cluster.is_string()) cluster = {{"preset", cluster}};
    cluster["nodes"] = 1;
    cluster["devices_per_node"] = ranks;
    if (json.contains("strategy") && json["strategy"].is_object()) json["strategy"].erase("data_parallel"); // what is left over
    return json.dump(2);
}

// Relative paths of the scenario start from its own folder: that is where its copy is written, or the temporary one has to do.
void ExecutionView::start() {
    ScenarioDocument* document = documents_.current();
    if (running() || !document) return;
    prediction_ = documents_.currentRun();
    const Run* run = store_.find(prediction_);
    name_ = run ? run->name : QString{};
    folder_ = kept_.add(name_);
    const QString scenario = folder_ + QStringLiteral("/scenario.json");
    const std::string text = withRanks(document->text(), ranks_->value());
    QFile file(scenario);
    if (folder_.isEmpty() || !file.open(QIODevice::WriteOnly) || file.write(QByteArray::fromStdString(text)) < 0) {
        Q_EMIT failed(tr("simexec"), tr("the scenario could not be written to %1").arg(scenario));
        return;
    }
    file.close();
    trace_ = folder_ + QLatin1Char('/') + MeasuredRuns::fileName(name_) + QStringLiteral("-measured.trace");
    if (text != document->text()) {
        name_ = tr("%1, %n rank(s)", "", ranks_->value()).arg(name_);
        prediction_ = store_.simulate(text, document->baseDir(), name_);
    }
    stopping_ = false;
    log_->clear();
    rest_.clear();
    if (!document->baseDir().empty()) process_.setWorkingDirectory(QString::fromStdString(document->baseDir()));
    launch(scenario);
}

void ExecutionView::launch(const QString& scenario) {
    const QString executor = executor_->currentText();
    QStringList words{QStringLiteral("run"),        scenario,
                      QStringLiteral("--executor"), executor,
                      QStringLiteral("--steps"),    QString::number(steps_->value()),
                      QStringLiteral("--trace"),    trace_,
                      QStringLiteral("-v")};
    words += QProcess::splitCommand(more_->text());
    QString program = program_->text();
    if (executor == QLatin1String("mpi")) { // a process a rank
        const ScenarioDocument* document = documents_.current();
        const int ranks = ranks_->value() > 0           ? ranks_->value()
                          : document->parsed().scenario ? static_cast<int>(document->parsed().scenario->world_size())
                                                        : 1;
        words = QStringList{QStringLiteral("-n"), QString::number(ranks), QStringLiteral("--oversubscribe"), program} + words;
        program = QStringLiteral("mpirun");
    }
    log_->appendPlainText(QStringLiteral("$ ") + program + QLatin1Char(' ') + words.join(QLatin1Char(' ')));
    progress_->setRange(0, steps_->value());
    progress_->setValue(0);
    process_.start(program, words);
    refresh();
}

void ExecutionView::stop() {
    stopping_ = true;
    process_.terminate();
    QTimer::singleShot(kill_after_ms, this, [this] {
        if (running() && stopping_) process_.kill();
    });
}

void ExecutionView::read() {
    const QString text = QString::fromUtf8(process_.readAll());
    if (text.isEmpty()) return;
    log_->appendPlainText(text.endsWith(QLatin1Char('\n')) ? text.chopped(1) : text);
    rest_ += text;
    const QStringList lines = rest_.split(QLatin1Char('\n'));
    rest_ = lines.back();
    for (const QString& line : lines.mid(0, lines.size() - 1)) follow(line);
}

// "step 3: loss 5.488318 in 38.00 ms"
void ExecutionView::follow(const QString& line) {
    static const QRegularExpression form(QStringLiteral("^step (\\d+): (.*)$"));
    const auto step = form.match(line);
    if (!step.hasMatch() || !running()) return;
    progress_->setValue(step.captured(1).toInt() + 1);
    words_->setText(tr("running %1: %2").arg(name_, step.captured(2)));
}

// The message of what went wrong: from its word "error:" on, else its last line.
QString ExecutionView::complaint() const {
    const QString all = log_->toPlainText();
    if (const qsizetype at = all.lastIndexOf(QLatin1String("error: ")); at >= 0)
        return all.mid(at + 7, 600).section(QLatin1Char('\n'), 0, 3);
    return all.section(QLatin1Char('\n'), -1);
}

void ExecutionView::over(int code, QProcess::ExitStatus status) {
    read();
    const QString said = complaint();
    refresh();
    const bool good = status == QProcess::NormalExit && code == 0 && QFile::exists(trace_) && !stopping_;
    log_->appendPlainText(stopping_ ? tr("stopped") : status == QProcess::CrashExit ? tr("simexec crashed") : tr("exit code %1").arg(code));
    if (!good) forget();
    if (stopping_) return;
    if (!good) {
        Q_EMIT failed(tr("simexec"), tr("%1: exit code %2: %3").arg(name_).arg(code).arg(said));
        return;
    }
    const RunId run = store_.loadTrace(trace_);
    store_.rename(run, tr("%1, measured").arg(name_));
    QStringList open;
    for (const Run& r : store_.runs()) open << r.path;
    if (const int gone = kept_.trim(open); gone > 0)
        log_->appendPlainText(tr("%n older measured run(s) deleted: the limit is reached", "", gone));
    Q_EMIT measured(run, prediction_);
}

void ExecutionView::forget() {
    if (!folder_.isEmpty()) QDir(folder_).removeRecursively();
    folder_.clear();
}

// The steps of the log.
TextTable ExecutionView::asTable() const {
    static const QRegularExpression form(QStringLiteral("^step (\\d+): loss (\\S+) in (\\S+ \\S+)"));
    TextTable out;
    out.head = {tr("step"), tr("loss"), with_unit(tr("time"), QStringLiteral("s"))};
    for (const QString& line : log().split(QLatin1Char('\n'))) {
        const auto step = form.match(line);
        if (!step.hasMatch()) continue;
        const auto time = parse_time(step.captured(3).toStdString());
        out.rows.push_back({step.captured(1), step.captured(2), time ? plain(time->seconds()) : step.captured(3)});
    }
    return out;
}

} // namespace orrery
